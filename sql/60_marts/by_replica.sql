-- Question: which caches carry the load, what does each miss, and who waits for it?
-- Row: one replica with lookups in the window; share is its part of the requests. peak_in_flight counts from
--   admission to end, waited_us from asking to be admitted to admission; the first is null, and the other nothing,
--   where one request at a time is replayed.
-- Inputs: asked, replicas.
-- Columns: pool, replica, requests, share, busiest, prompt_tokens, hit_tokens, prefill_tokens,
--   miss_uncacheable_tokens, miss_in_flight_tokens, miss_invalidated_tokens, miss_expired_tokens,
--   miss_evicted_tokens, miss_misrouted_tokens, miss_key_changed_tokens, miss_cold_tokens,
--   miss_unexplained_tokens, live_from, live_to, peak_in_flight, waited_us, longest_wait_us
with sums as (
    select
        pool,
        replica,
        count(*) as requests,
        coalesce(sum(epoch_us(admitted_at) - epoch_us(queued_at)), 0)::bigint as waited_us,
        coalesce(max(epoch_us(admitted_at) - epoch_us(queued_at)), 0) as longest_wait_us,
        sum(columns('^(prompt|hit|miss_.+)_tokens$'))::bigint as '\0'
    from asked
    group by pool, replica
),
steps as (
    select pool, replica, admitted_at as moment, 1 as step
    from asked
    where finished_at > admitted_at
    union all
    select pool, replica, finished_at as moment, -1 as step
    from asked
    where finished_at > admitted_at
),
running as (
    select
        pool,
        replica,
        sum(step) over (partition by pool, replica order by moment, step rows unbounded preceding) as n
    from steps
),
peaks as (
    select pool, replica, max(n)::bigint as peak_in_flight
    from running
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
    replicas.live_to,
    peaks.peak_in_flight,
    sums.waited_us,
    sums.longest_wait_us
from sums
left join peaks on peaks.pool is not distinct from sums.pool and peaks.replica = sums.replica
left join replicas on replicas.pool = sums.pool and replicas.name = sums.replica
order by sums.pool nulls last, sums.replica
