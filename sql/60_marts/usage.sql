-- Question: what does the service itself say of its cache, and how near is the replay to it?
-- Row: one, always. Null is not known: no row reports it. simulated_hit_tokens, agreement and the two differences
--   are over the lookups that have both keys and usage.
-- Inputs: asked.
-- Columns: requests_with_usage, requests_with_null_usage, requests_without_usage, prompt_tokens, cached_tokens,
--   cache_write_tokens, cache_write_5m_tokens, cache_write_1h_tokens, uncached_tokens, both_prompt_tokens,
--   simulated_hit_tokens, unexplained_tokens, unpredicted_hit_tokens, agreement
with sums as (
    select
        count(*) filter (usage_state = 'present') as requests_with_usage,
        count(*) filter (usage_state = 'null') as requests_with_null_usage,
        count(*) filter (usage_state = 'absent') as requests_without_usage,
        coalesce(sum(prompt_tokens) filter (usage_state = 'present'), 0)::bigint as prompt_tokens,
        sum(observed_hit_tokens) filter (usage_state = 'present')::bigint as cached_tokens,
        sum(
            coalesce(observed_write_5m_tokens, 0) + coalesce(observed_write_1h_tokens, 0)
            + coalesce(observed_write_other_tokens, 0)
        ) filter (
            usage_state = 'present' and coalesce(
                observed_write_5m_tokens, observed_write_1h_tokens, observed_write_other_tokens
            ) is not null
        )::bigint as cache_write_tokens,
        sum(observed_write_5m_tokens) filter (usage_state = 'present')::bigint as cache_write_5m_tokens,
        sum(observed_write_1h_tokens) filter (usage_state = 'present')::bigint as cache_write_1h_tokens,
        coalesce(
            sum(prompt_tokens) filter (usage_state = 'present' and basis = 'simulated'), 0
        )::bigint as both_prompt_tokens,
        sum(hit_tokens) filter (usage_state = 'present' and basis = 'simulated')::bigint as simulated_hit_tokens,
        sum(unexplained_tokens)::bigint as unexplained_tokens,
        sum(unpredicted_hit_tokens)::bigint as unpredicted_hit_tokens
    from asked
)
select
    requests_with_usage,
    requests_with_null_usage,
    requests_without_usage,
    prompt_tokens,
    cached_tokens,
    cache_write_tokens,
    cache_write_5m_tokens,
    cache_write_1h_tokens,
    prompt_tokens - cached_tokens - coalesce(cache_write_tokens, 0) as uncached_tokens,
    both_prompt_tokens,
    simulated_hit_tokens,
    unexplained_tokens,
    unpredicted_hit_tokens,
    1 - (unexplained_tokens + unpredicted_hit_tokens) / nullif(both_prompt_tokens, 0) as agreement
from sums
