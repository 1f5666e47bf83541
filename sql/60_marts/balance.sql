-- Question: how evenly is the load of a pool spread over its replicas?
-- Row: one pool with a replica that lived in the window; imbalance is the busiest over the mean of all that lived
--   in it, also of those that nobody asked, by requests and by the tokens that had to be computed.
-- Inputs: by_replica, replicas, asked.
-- Columns: pool, n_replicas, requests, prefill_tokens, imbalance_requests, imbalance_prefill, peak_in_flight,
--   waited_us
with seen as (
    select min(admitted_at) as from_at, max(admitted_at) as to_at
    from asked
),
lived as (
    select replicas.pool, count(*) as n_replicas
    from replicas
    cross join seen
    where replicas.live_from <= seen.to_at and coalesce(replicas.live_to > seen.from_at, true)
    group by replicas.pool
),
loads as (
    select
        pool,
        sum(requests)::bigint as requests,
        sum(prefill_tokens)::bigint as prefill_tokens,
        max(requests) as most_requests,
        max(prefill_tokens) as most_prefill,
        max(peak_in_flight) as peak_in_flight,
        sum(waited_us)::bigint as waited_us
    from by_replica
    group by pool
)
select
    lived.pool,
    lived.n_replicas,
    loads.requests,
    loads.prefill_tokens,
    loads.most_requests * lived.n_replicas / nullif(loads.requests, 0) as imbalance_requests,
    loads.most_prefill * lived.n_replicas / nullif(loads.prefill_tokens, 0) as imbalance_prefill,
    loads.peak_in_flight,
    loads.waited_us
from lived
join loads on loads.pool = lived.pool
order by lived.pool
