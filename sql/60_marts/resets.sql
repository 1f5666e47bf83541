-- Question: what did each reset cost, and how fast did its caches come back?
-- Row: one reset in the window. lost_tokens are the misses of the window that it caused, wherever. The rates are those
--   of the replicas that it struck, in the hour before and the hour after. recovery_s runs to the end of the first
--   minute at which the last 5 minutes hit at 90 % of the rate before; null if that does not come within 2 hours.
-- Inputs: struck, pieces, recovery.
-- Columns: event_id, pool, reset_at, kind, note, replicas, lost_tokens, lost_requests, rate_before,
--   rate_after, recovery_s
with resets as (
    select event_id, pool, reset_at, kind, min(note) as note, list(replica order by replica) as replicas
    from struck
    group by event_id, pool, reset_at, kind
),
lost as (
    select event_id, pool, sum(tokens)::bigint as lost_tokens, count(distinct lookup) as lost_requests
    from pieces
    where event_id is not null
    group by event_id, pool
),
rates as (
    select
        event_id,
        pool,
        reset_at,
        sum(hit_tokens) filter (minute < 0) / nullif(sum(prompt_tokens) filter (minute < 0), 0) as rate_before,
        sum(hit_tokens) filter (minute between 0 and 59)
            / nullif(sum(prompt_tokens) filter (minute between 0 and 59), 0) as rate_after
    from recovery
    group by event_id, pool, reset_at
),
rolling as (
    select
        event_id,
        pool,
        reset_at,
        minute,
        sum(hit_tokens) over last_minutes / nullif(sum(prompt_tokens) over last_minutes, 0) as rate
    from recovery
    where minute >= 0
    window last_minutes as (
        partition by event_id, pool, reset_at order by minute range between 4 preceding and current row
    )
),
recovered as (
    select rolling.event_id, rolling.pool, rolling.reset_at, 60 * (min(rolling.minute) + 1) as recovery_s
    from rolling
    join rates using (event_id, pool, reset_at)
    where rates.rate_before > 0 and rolling.rate >= 0.9 * rates.rate_before
    group by rolling.event_id, rolling.pool, rolling.reset_at
)
select
    resets.event_id,
    resets.pool,
    resets.reset_at,
    resets.kind,
    resets.note,
    resets.replicas,
    coalesce(lost.lost_tokens, 0) as lost_tokens,
    coalesce(lost.lost_requests, 0) as lost_requests,
    rates.rate_before,
    rates.rate_after,
    recovered.recovery_s
from resets
left join lost using (event_id, pool)
left join rates using (event_id, pool, reset_at)
left join recovered using (event_id, pool, reset_at)
order by resets.reset_at, resets.pool, resets.event_id
