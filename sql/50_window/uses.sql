-- Question: which rates does the window need?
-- Row: one combination of what prices depend on.
-- Inputs: windowed.
-- Columns: pool, provider, model, slot, basis
select distinct pool, provider, model, slot, basis
from windowed
order by pool nulls last, provider nulls last, model nulls last, slot, basis
