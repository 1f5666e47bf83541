-- Question: who used each shared prefix whose cost is shared, and what did each pay for it?
-- Row: one shared node, currency and heading; empty where whoever writes pays.
-- Inputs: visits, asked, valued, sharing.
-- Columns: node, currency, field, value, tokens, paid_cost
select
    visits.node,
    visits.currency,
    valued.field,
    valued.value,
    sum(visits.prompt_tokens)::bigint as tokens,
    sum(visits.paid_cost) as paid_cost
from visits
join asked using (request_row)
join sharing on sharing.pool = asked.pool
join valued using (request_row)
where visits.node is not null and valued.field <> 'all'
group by visits.node, visits.currency, valued.field, valued.value
order by visits.node, visits.currency, valued.field, valued.value nulls last
