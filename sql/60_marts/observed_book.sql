-- Question: what does the observed book of the window come to?
-- Row: one, always; observed_hit_tokens plus the observed misses of every cause sum to prompt_tokens.
-- Inputs: observed, asked.
-- Columns: requests, requests_with_hit, prompt_tokens, output_tokens, observed_hit_tokens,
--   observed_uncacheable_tokens, observed_in_flight_tokens, observed_invalidated_tokens, observed_expired_tokens,
--   observed_evicted_tokens, observed_misrouted_tokens, observed_key_changed_tokens, observed_cold_tokens,
--   observed_unexplained_tokens
select
    count(*) as requests,
    count(*) filter (observed.observed_hit_tokens > 0) as requests_with_hit,
    coalesce(sum(observed.prompt_tokens), 0)::bigint as prompt_tokens,
    coalesce(sum(asked.output_tokens), 0)::bigint as output_tokens,
    coalesce(sum(observed.observed_hit_tokens), 0)::bigint as observed_hit_tokens,
    coalesce(sum(observed.observed_uncacheable_tokens), 0)::bigint as observed_uncacheable_tokens,
    coalesce(sum(observed.observed_in_flight_tokens), 0)::bigint as observed_in_flight_tokens,
    coalesce(sum(observed.observed_invalidated_tokens), 0)::bigint as observed_invalidated_tokens,
    coalesce(sum(observed.observed_expired_tokens), 0)::bigint as observed_expired_tokens,
    coalesce(sum(observed.observed_evicted_tokens), 0)::bigint as observed_evicted_tokens,
    coalesce(sum(observed.observed_misrouted_tokens), 0)::bigint as observed_misrouted_tokens,
    coalesce(sum(observed.observed_key_changed_tokens), 0)::bigint as observed_key_changed_tokens,
    coalesce(sum(observed.observed_cold_tokens), 0)::bigint as observed_cold_tokens,
    coalesce(sum(observed.observed_unexplained_tokens), 0)::bigint as observed_unexplained_tokens
from observed
join asked using (request_row)
