-- Question: how do the observed misses of each request split into causes?
-- Row: one lookup with usage; observed_hit_tokens and the observed misses sum to its prompt. What the service
--   hit beyond the replay is taken off the simulated causes, from the last rule of the account upwards.
-- Inputs: lookups.
-- Columns: request_row, request_id, admitted_at, basis, prompt_tokens, observed_hit_tokens,
--   observed_uncacheable_tokens, observed_in_flight_tokens, observed_invalidated_tokens,
--   observed_expired_tokens, observed_evicted_tokens, observed_misrouted_tokens, observed_key_changed_tokens,
--   observed_cold_tokens, observed_unexplained_tokens, unpredicted_hit_tokens
with surplus as (
    select *, coalesce(unpredicted_hit_tokens, 0) as left_evicted
    from lookups
    where usage_state = 'present'
),
-- Rule 4 from its end (evicted, expired, invalidated), then rules 3, 2 and 1, then what could not hit at all.
taken as (
    select
        *,
        greatest(0, left_evicted - miss_evicted_tokens) as left_expired,
        greatest(0, left_expired - miss_expired_tokens) as left_invalidated,
        greatest(0, left_invalidated - miss_invalidated_tokens) as left_misrouted,
        greatest(0, left_misrouted - miss_misrouted_tokens) as left_cold,
        greatest(0, left_cold - miss_cold_tokens) as left_key_changed,
        greatest(0, left_key_changed - miss_key_changed_tokens) as left_in_flight,
        greatest(0, left_in_flight - miss_in_flight_tokens) as left_uncacheable
    from surplus
)
select
    request_row,
    request_id,
    admitted_at,
    basis,
    prompt_tokens,
    observed_hit_tokens,
    greatest(0, miss_uncacheable_tokens - left_uncacheable) as observed_uncacheable_tokens,
    greatest(0, miss_in_flight_tokens - left_in_flight) as observed_in_flight_tokens,
    greatest(0, miss_invalidated_tokens - left_invalidated) as observed_invalidated_tokens,
    greatest(0, miss_expired_tokens - left_expired) as observed_expired_tokens,
    greatest(0, miss_evicted_tokens - left_evicted) as observed_evicted_tokens,
    greatest(0, miss_misrouted_tokens - left_misrouted) as observed_misrouted_tokens,
    greatest(0, miss_key_changed_tokens - left_key_changed) as observed_key_changed_tokens,
    greatest(0, miss_cold_tokens - left_cold) as observed_cold_tokens,
    miss_unexplained_tokens + coalesce(unexplained_tokens, 0) as observed_unexplained_tokens,
    coalesce(unpredicted_hit_tokens, 0) as unpredicted_hit_tokens
from taken
order by admitted_at, request_row
