-- Question: how did hits and misses of each tenant, prefix, model, release and replica move over the window?
-- Row: one slice of slice_us microseconds with lookups of one value of one field; field all has the whole. A field with
--   one value says no more than the whole, and a value with few lookups nothing: both are absent, and so is what
--   comes behind the 20 largest values.
-- Inputs: asked, prefix_of.
-- Parameters: from_us, slice_us, least_requests.
-- Columns: field, value, slice, requests, prompt_tokens, hit_tokens, miss_uncacheable_tokens,
--   miss_in_flight_tokens, miss_invalidated_tokens, miss_expired_tokens, miss_evicted_tokens,
--   miss_misrouted_tokens, miss_key_changed_tokens, miss_cold_tokens, miss_unexplained_tokens
with headed as (
    select
        unnest([
            {'field': 'all', 'value': 'all'},
            {'field': 'tenant', 'value': asked.tenant},
            {'field': 'prefix', 'value': prefix_of.prefix},
            {'field': 'model', 'value': asked.model},
            {'field': 'release', 'value': asked.release},
            {'field': 'replica', 'value': asked.replica}
        ], recursive := true),
        (epoch_us(asked.started_at) - $from_us) // $slice_us as slice,
        columns('^(prompt|hit|miss_.+)_tokens$')
    from asked
    left join prefix_of using (request_row)
),
sizes as (
    select field, value
    from headed
    where value is not null
    group by field, value
    having field = 'all' or count(*) >= $least_requests
    qualify (field = 'all' or count(*) over (partition by field) > 1)
        and row_number() over (partition by field order by sum(prompt_tokens) desc, value) <= 20
)
select
    field,
    value,
    headed.slice,
    count(*) as requests,
    sum(columns('^(prompt|hit|miss_.+)_tokens$'))::bigint as '\0'
from headed
join sizes using (field, value)
group by field, value, headed.slice
order by field, value, headed.slice
