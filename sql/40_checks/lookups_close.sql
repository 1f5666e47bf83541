-- Question: does every prompt equal its hits plus its misses by cause, and is nothing negative?
-- Row: one lookup where it does not; none is right.
-- Inputs: lookups.
-- Columns: request_id, source_file, source_line, prompt_tokens, hit_tokens, missed_tokens, least_tokens
with summed as (
    select
        request_id,
        source_file,
        source_line,
        prompt_tokens,
        hit_tokens,
        miss_uncacheable_tokens + miss_in_flight_tokens + miss_invalidated_tokens + miss_expired_tokens
            + miss_evicted_tokens + miss_misrouted_tokens + miss_key_changed_tokens + miss_cold_tokens
            + miss_unexplained_tokens as missed_tokens,
        least(
            prompt_tokens, hit_tokens, written_tokens, miss_uncacheable_tokens, miss_in_flight_tokens,
            miss_invalidated_tokens, miss_expired_tokens, miss_evicted_tokens, miss_misrouted_tokens,
            miss_key_changed_tokens, miss_cold_tokens, miss_unexplained_tokens
        ) as least_tokens
    from lookups
)
select request_id, source_file, source_line, prompt_tokens, hit_tokens, missed_tokens, least_tokens
from summed
where prompt_tokens <> hit_tokens + missed_tokens or least_tokens < 0
order by source_file, source_line
