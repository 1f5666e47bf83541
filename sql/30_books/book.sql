-- Question: how do the tokens of each request split into hits and causes?
-- Row: one request that asked a cache, or that has usage only.
-- Inputs: segments.
-- Columns: request_row, hit_tokens, written_tokens, miss_uncacheable_tokens, miss_in_flight_tokens,
--   miss_invalidated_tokens, miss_expired_tokens, miss_evicted_tokens, miss_misrouted_tokens,
--   miss_key_changed_tokens, miss_cold_tokens, miss_unexplained_tokens
select
    request_row,
    coalesce(sum(tokens) filter (hit), 0)::bigint as hit_tokens,
    sum(written_tokens)::bigint as written_tokens,
    coalesce(sum(tokens) filter (cause = 'uncacheable'), 0)::bigint as miss_uncacheable_tokens,
    coalesce(sum(tokens) filter (cause = 'in_flight'), 0)::bigint as miss_in_flight_tokens,
    coalesce(sum(tokens) filter (cause = 'invalidated'), 0)::bigint as miss_invalidated_tokens,
    coalesce(sum(tokens) filter (cause = 'expired'), 0)::bigint as miss_expired_tokens,
    coalesce(sum(tokens) filter (cause = 'evicted'), 0)::bigint as miss_evicted_tokens,
    coalesce(sum(tokens) filter (cause = 'misrouted'), 0)::bigint as miss_misrouted_tokens,
    coalesce(sum(tokens) filter (cause = 'key_changed'), 0)::bigint as miss_key_changed_tokens,
    coalesce(sum(tokens) filter (cause = 'cold'), 0)::bigint as miss_cold_tokens,
    coalesce(sum(tokens) filter (cause = 'unexplained'), 0)::bigint as miss_unexplained_tokens
from segments
group by request_row
