-- Question: how many tokens did each cause take?
-- Row: one cause, all of them in the order of the account, also those that took none; longer_ttl_tokens are those
--   that a longer lifetime alone would have kept, which of a hosted cache has to be on sale.
-- Inputs: pieces.
-- Columns: cause, tokens, requests, segments, longer_ttl_tokens
with account (place, cause) as (
    values
        (0, 'uncacheable'), (1, 'in_flight'), (2, 'invalidated'), (3, 'expired'), (4, 'evicted'), (5, 'misrouted'),
        (6, 'key_changed'), (7, 'cold'), (8, 'unexplained')
),
missed as (
    select
        cause,
        sum(tokens)::bigint as tokens,
        count(distinct request_row) as requests,
        count(*) as segments,
        (sum(tokens) filter (hit_with_longer_ttl))::bigint as longer_ttl_tokens
    from pieces
    where not hit
    group by cause
)
select
    account.cause,
    coalesce(missed.tokens, 0) as tokens,
    coalesce(missed.requests, 0) as requests,
    coalesce(missed.segments, 0) as segments,
    coalesce(missed.longer_ttl_tokens, 0) as longer_ttl_tokens
from account
left join missed using (cause)
order by account.place
