-- Question: which tenants, models and other fields of the log hit and miss?
-- Row: one value of one field; value is null where the log does not say, and a field that says nothing is absent.
-- Inputs: asked.
-- Columns: field, value, requests, prompt_tokens, output_tokens, hit_tokens, miss_uncacheable_tokens,
--   miss_in_flight_tokens, miss_invalidated_tokens, miss_expired_tokens, miss_evicted_tokens,
--   miss_misrouted_tokens, miss_key_changed_tokens, miss_cold_tokens, miss_unexplained_tokens,
--   observed_prompt_tokens, observed_hit_tokens
with labelled as (
    select asked.*, unnest(map_entries(labels)) as label
    from asked
),
valued as (
    select
        unnest([
            {'field': 'provider', 'value': provider},
            {'field': 'model', 'value': model},
            {'field': 'release', 'value': release},
            {'field': 'client', 'value': client},
            {'field': 'tenant', 'value': tenant},
            {'field': 'adapter', 'value': adapter},
            {'field': 'service_tier', 'value': service_tier}
        ], recursive := true),
        output_tokens,
        usage_state,
        observed_hit_tokens,
        columns('^(prompt|hit|miss_.+)_tokens$')
    from asked
    union all by name
    select
        'labels.' || label.key as field,
        label.value as value,
        output_tokens,
        usage_state,
        observed_hit_tokens,
        columns('^(prompt|hit|miss_.+)_tokens$')
    from labelled
)
select
    field,
    value,
    count(*) as requests,
    sum(prompt_tokens)::bigint as prompt_tokens,
    coalesce(sum(output_tokens), 0)::bigint as output_tokens,
    sum(hit_tokens)::bigint as hit_tokens,
    sum(columns('^miss_.+_tokens$'))::bigint as '\0',
    coalesce(sum(prompt_tokens) filter (usage_state = 'present'), 0)::bigint as observed_prompt_tokens,
    coalesce(sum(observed_hit_tokens) filter (usage_state = 'present'), 0)::bigint as observed_hit_tokens
from valued
group by field, value
qualify count(value) over (partition by field) > 0
order by field, prompt_tokens desc, value nulls last
