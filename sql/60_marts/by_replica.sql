-- Question: which caches carry the load, and what does each miss?
-- Row: one replica with lookups in the window; share is its part of the requests.
-- Inputs: asked, replicas.
-- Columns: pool, replica, requests, share, busiest, prompt_tokens, hit_tokens, prefill_tokens,
--   miss_uncacheable_tokens, miss_in_flight_tokens, miss_invalidated_tokens, miss_expired_tokens,
--   miss_evicted_tokens, miss_misrouted_tokens, miss_key_changed_tokens, miss_cold_tokens,
--   miss_unexplained_tokens, live_from, live_to
with sums as (
    select
        pool,
        replica,
        count(*) as requests,
        sum(columns('^(prompt|hit|miss_.+)_tokens$'))::bigint as '\0'
    from asked
    group by pool, replica
)
select
    sums.pool,
    sums.replica,
    sums.requests,
    sums.requests / sum(sums.requests) over () as share,
    row_number() over (order by sums.requests desc, sums.pool nulls last, sums.replica) = 1 as busiest,
    sums.prompt_tokens,
    sums.hit_tokens,
    sums.prompt_tokens - sums.hit_tokens as prefill_tokens,
    columns('^miss_.+_tokens$'),
    replicas.live_from,
    replicas.live_to
from sums
left join replicas on replicas.pool = sums.pool and replicas.name = sums.replica
order by sums.pool nulls last, sums.replica
