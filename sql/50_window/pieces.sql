-- Question: what became of the prompt tokens of the window, piece by piece?
-- Row: one segment of a lookup in the window; written_1h_tokens is the part of written_tokens that a
--   mark asks, or the log says, to have been written to live longer than the rest.
-- Inputs: segments, asked.
-- Columns: request_row, lookup, pool, replica, block_size, card, first_block, n_blocks, tokens,
--   written_tokens, written_1h_tokens, hit, cause, detail, elsewhere,
--   hit_with_longer_ttl, event_id
select
    segments.request_row,
    segments.lookup,
    segments.pool,
    segments.replica,
    asked.block_size,
    asked.card,
    segments.first_block,
    segments.n_blocks,
    segments.tokens,
    segments.written_tokens,
    segments.written_1h_tokens,
    segments.hit,
    segments.cause,
    segments.detail,
    segments.elsewhere,
    segments.hit_with_longer_ttl,
    segments.event_id
from segments
join asked using (request_row)
