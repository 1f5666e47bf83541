-- Question: is every kept request exactly one lookup, or set aside for exactly one reason?
-- Row: one request that is counted never or twice; none is right.
-- Inputs: requests, lookups, unmeasured.
-- Columns: request_row, request_id, times_counted
with counted as (
    select request_row from lookups
    union all
    select request_row from unmeasured where reason <> 'usage'
),
times as (
    select request_row, count(*) as times_counted
    from counted
    group by request_row
)
select requests.request_row, requests.request_id, coalesce(times.times_counted, 0) as times_counted
from requests
left join times using (request_row)
where coalesce(times.times_counted, 0) <> 1
order by requests.request_row
