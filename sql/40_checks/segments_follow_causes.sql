-- Question: has every missed segment one known cause and at least one token, and every hit none?
-- Row: one segment that breaks this; none is right.
-- Inputs: segments.
-- Columns: request_id, first_block, tokens, written_tokens, hit, cause
select request_id, first_block, tokens, written_tokens, hit, cause
from segments
where tokens <= 0
    or written_tokens < 0
    or written_tokens > tokens
    or hit <> (cause is null)
    or not coalesce(
        cause in (
            'uncacheable', 'in_flight', 'invalidated', 'expired', 'evicted', 'misrouted', 'key_changed', 'cold',
            'unexplained'
        ),
        hit
    )
order by request_id, first_block
