-- Question: which caches did a router expect nothing of, although they report reads?
-- Row: one pool and replica with requests that carry usage and what their router expected. reads are the requests that
--   read anything, unforeseen those of them of which the router expected nothing.
-- Inputs: asked, lives.
-- Columns: pool, replica, requests, requests_expected, reads, unforeseen
select
    asked.pool,
    asked.replica,
    count(*) as requests,
    count(*) filter (lives.router_expected_tokens > 0) as requests_expected,
    count(*) filter (asked.observed_hit_tokens > 0) as reads,
    count(*) filter (asked.observed_hit_tokens > 0 and lives.router_expected_tokens = 0) as unforeseen
from asked
join lives using (request_row)
where asked.usage_state = 'present' and lives.router_expected_tokens is not null
group by asked.pool, asked.replica
order by asked.pool nulls last, asked.replica
