-- Question: what did the window ask, hit and miss, in all and by basis?
-- Row: one basis (simulated, observed), or all of them (basis all); running_effect_tokens is what requests that
--   run beside each other add to the last rung of the ladder, or take from it.
-- Inputs: asked.
-- Columns: basis, requests, requests_with_hit, prompt_tokens, output_tokens, hit_tokens, hit_host_tokens,
--   miss_uncacheable_tokens, miss_in_flight_tokens, miss_invalidated_tokens, miss_expired_tokens,
--   miss_evicted_tokens, miss_misrouted_tokens, miss_key_changed_tokens, miss_cold_tokens,
--   miss_unexplained_tokens, written_tokens, ideal_hit_tokens, running_effect_tokens
select
    if(grouping(basis) = 1, 'all', basis) as basis,
    count(*) as requests,
    count(*) filter (hit_tokens > 0) as requests_with_hit,
    coalesce(sum(prompt_tokens), 0)::bigint as prompt_tokens,
    coalesce(sum(output_tokens), 0)::bigint as output_tokens,
    coalesce(sum(hit_tokens), 0)::bigint as hit_tokens,
    coalesce(sum(hit_host_tokens), 0)::bigint as hit_host_tokens,
    coalesce(sum(columns('^miss_.+_tokens$')), 0)::bigint as '\0',
    coalesce(sum(written_tokens), 0)::bigint as written_tokens,
    sum(ideal_hit_tokens)::bigint as ideal_hit_tokens,
    coalesce(sum(hit_tokens - capacity_hit_tokens), 0)::bigint as running_effect_tokens
from asked
group by grouping sets ((), (basis))
order by grouping(basis) desc, basis desc
