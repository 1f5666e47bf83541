-- Question: does every prompt with usage equal its observed hits plus its observed misses by cause?
-- Row: one lookup where it does not, or with a negative part; none is right.
-- Inputs: observed.
-- Columns: request_id, prompt_tokens, observed_hit_tokens, missed_tokens, least_tokens
with summed as (
    select
        request_id,
        prompt_tokens,
        observed_hit_tokens,
        observed_uncacheable_tokens + observed_in_flight_tokens + observed_invalidated_tokens
            + observed_expired_tokens + observed_evicted_tokens + observed_misrouted_tokens
            + observed_key_changed_tokens + observed_cold_tokens + observed_unexplained_tokens as missed_tokens,
        least(
            observed_hit_tokens, observed_uncacheable_tokens, observed_in_flight_tokens,
            observed_invalidated_tokens, observed_expired_tokens, observed_evicted_tokens,
            observed_misrouted_tokens, observed_key_changed_tokens, observed_cold_tokens,
            observed_unexplained_tokens
        ) as least_tokens
    from observed
)
select request_id, prompt_tokens, observed_hit_tokens, missed_tokens, least_tokens
from summed
where prompt_tokens <> observed_hit_tokens + missed_tokens or least_tokens < 0
order by request_id
