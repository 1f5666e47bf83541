-- Question: which rows ask no cache in this replay, and why not?
-- Row: one request that is no lookup: reason is failed (it never reached a cache), usage (it has usage but
--   no keys: it stands in the totals with what was observed) or unmeasured (neither keys nor usage).
-- Inputs: requests, lookup_facts.
-- Columns: request_row, reason
select
    requests.request_row,
    case
        when requests.status = 'failed' then 'failed'
        when requests.usage_state = 'present' then 'usage'
        else 'unmeasured'
    end as reason
from requests
where not exists (
    select 1
    from lookup_facts
    where lookup_facts.request_row = requests.request_row
)
