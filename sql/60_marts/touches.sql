-- Question: who used each shared prefix whose cost is shared, and what did each pay for it?
-- Row: one shared node, currency and heading; empty where whoever writes pays. The heading prefix has the key of the
--   last shared node of those who used it.
-- Inputs: visits, asked, valued, sharing, shared.
-- Columns: node, currency, field, value, tokens, paid_cost
with ends as (
    select request_row, arg_max(node, level) as node
    from visits
    where node is not null
    group by request_row
),
headings as (
    select request_row, field, value
    from valued
    where field <> 'all'
    union all
    select ends.request_row, 'prefix' as field, lower(hex(shared.key)) as value
    from ends
    join shared using (node)
)
select
    visits.node,
    visits.currency,
    headings.field,
    headings.value,
    sum(visits.prompt_tokens)::bigint as tokens,
    sum(visits.paid_cost) as paid_cost
from visits
join asked using (request_row)
join sharing on sharing.pool = asked.pool
join headings using (request_row)
where visits.node is not null
group by visits.node, visits.currency, headings.field, headings.value
order by visits.node, visits.currency, headings.field, headings.value nulls last
