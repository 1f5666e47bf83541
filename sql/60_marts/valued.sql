-- Question: under which headings does each lookup of the window stand in the cuts of the money?
-- Row: one lookup under one heading (field all has the whole, labels.<name> a label); value is null where the log
--   does not say.
-- Inputs: asked, days.
-- Columns: request_row, field, value, place
with dated as (
    select asked.request_row, days.day
    from asked
    asof join days on epoch_us(asked.started_at) >= days.from_us
),
-- A kind of request, a feature, a region: any short field of the envelope. Every row stands under each.
names as (
    select distinct unnest(map_keys(labels)) as name
    from asked
)
select
    asked.request_row,
    unnest([
        {'field': 'all', 'value': 'all', 'place': 0},
        {'field': 'model', 'value': asked.model, 'place': 1},
        {'field': 'tenant', 'value': asked.tenant, 'place': 2},
        {'field': 'provider', 'value': asked.provider, 'place': 3},
        {'field': 'service_tier', 'value': asked.service_tier, 'place': 4},
        {'field': 'day', 'value': dated.day, 'place': 5}
    ], recursive := true)
from asked
join dated using (request_row)
union all by name
select
    asked.request_row,
    'labels.' || names.name as field,
    map_extract(asked.labels, names.name)[1] as value,
    6 as place
from asked
cross join names
