-- Question: which releases, models, replicas, clients and adapters came or went in the window?
-- Row: one value of one field, with its first and its last lookup.
-- Inputs: asked.
-- Columns: field, value, requests, first_at, last_at
with named as (
    select
        started_at,
        unnest([
            {'field': 'release', 'value': release},
            {'field': 'model', 'value': model},
            {'field': 'replica', 'value': replica},
            {'field': 'client', 'value': client},
            {'field': 'adapter', 'value': adapter}
        ], recursive := true)
    from asked
)
select field, value, count(*) as requests, min(started_at) as first_at, max(started_at) as last_at
from named
where value is not null
group by field, value
order by first_at, field, value
