-- Question: which rates does the window need?
-- Row: one combination of what prices depend on.
-- Inputs: windowed.
-- Columns: pool, provider, model, service_tier, inference_geo, slot, basis
select distinct pool, provider, model, service_tier, inference_geo, slot, basis
from windowed
order by
    pool nulls last,
    provider nulls last,
    model nulls last,
    service_tier nulls last,
    inference_geo nulls last,
    slot,
    basis
