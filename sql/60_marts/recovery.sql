-- Question: how did the hit rate move around each reset, minute by minute?
-- Row: one reset and one minute from an hour before it to two hours after it with lookups on the replicas that it
--   struck; minute -1 is the last one before it. lost_tokens are misses that the reset caused on these replicas.
-- Inputs: struck, lookups, segments.
-- Columns: event_id, pool, reset_at, minute, requests, prompt_tokens, hit_tokens, lost_tokens
with near as (
    select
        struck.event_id,
        struck.pool,
        struck.reset_at,
        lookups.request_row,
        lookups.prompt_tokens,
        lookups.hit_tokens,
        floor((epoch_us(lookups.admitted_at) - epoch_us(struck.reset_at)) / 6e7)::bigint as minute
    from struck
    join lookups
        on lookups.pool = struck.pool
        and lookups.replica = struck.replica
        and lookups.admitted_at >= struck.reset_at - interval 1 hour
        and lookups.admitted_at < struck.reset_at + interval 2 hour
),
lost as (
    select event_id, request_row, sum(tokens) as tokens
    from segments
    where event_id is not null
    group by event_id, request_row
)
select
    near.event_id,
    near.pool,
    near.reset_at,
    near.minute,
    count(*) as requests,
    sum(near.prompt_tokens)::bigint as prompt_tokens,
    sum(near.hit_tokens)::bigint as hit_tokens,
    coalesce(sum(lost.tokens), 0)::bigint as lost_tokens
from near
left join lost using (event_id, request_row)
group by near.event_id, near.pool, near.reset_at, near.minute
order by near.reset_at, near.pool, near.event_id, near.minute
