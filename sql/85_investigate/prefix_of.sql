-- Question: to which shared prefix does each lookup of the window belong?
-- Row: one lookup; the deepest shared node of its path that enough lookups pass through.
-- Inputs: asked, lookup_shared, shared.
-- Parameters: least_requests.
-- Columns: request_row, prefix
with passed as (
    select asked.request_row, lookup_shared.node, lookup_shared.first_block
    from asked
    join lookup_shared using (lookup)
    where lookup_shared.node is not null
),
busy as (
    select node
    from passed
    group by node
    having count(*) >= $least_requests
)
select passed.request_row, lower(hex(shared.key)) as prefix
from passed
join busy using (node)
join shared using (node)
qualify row_number() over (partition by passed.request_row order by passed.first_block desc) = 1
