-- Question: how long ago was last used what hits, and what eviction takes?
-- Row: one pool and range of ages in which there is anything; upto_s is null for the last one, which is open. Ages
--   run from the admission of the last lookup that used the blocks: hit_tokens to the hit, evicted_tokens to the
--   eviction. missed_tokens are evicted tokens that a lookup of the window asked for later, by their age at eviction.
-- Inputs: asked, segments, removals, replicas.
-- Parameters: from_us (first microsecond), to_us (first microsecond behind it).
-- Columns: pool, from_s, upto_s, hit_tokens, evicted_tokens, missed_tokens
with ranges (from_s, upto_s) as (
    values
        (0, 1), (1, 3), (3, 10), (10, 30), (30, 60), (60, 120), (120, 300), (300, 600), (600, 1200), (1200, 1800),
        (1800, 3600), (3600, 7200), (7200, 14400), (14400, 28800), (28800, 86400), (86400, 172800), (172800, 604800),
        (604800, null)
),
ages as (
    select
        segments.pool,
        (epoch_us(segments.admitted_at) - epoch_us(segments.last_used_at)) // 1000000 as age_s,
        segments.tokens as hit_tokens,
        0 as evicted_tokens,
        0 as missed_tokens
    from segments
    join asked using (request_row)
    where segments.hit
    union all
    select
        replicas.pool,
        (epoch_us(removals.removed_at) - epoch_us(removals.last_used_at)) // 1000000,
        0,
        removals.tokens,
        0
    from removals
    join replicas on replicas.replica = removals.replica
    where
        removals.cause = 'evicted'
        and epoch_us(removals.removed_at) >= $from_us
        and epoch_us(removals.removed_at) < $to_us
    union all
    select
        segments.pool,
        (epoch_us(segments.removed_at) - epoch_us(segments.last_used_at)) // 1000000,
        0,
        0,
        segments.tokens
    from segments
    join asked using (request_row)
    where segments.cause = 'evicted'
),
-- Fewer seconds than rows: every one of them is compared with every range.
seconds as (
    select
        pool,
        age_s,
        sum(hit_tokens) as hit_tokens,
        sum(evicted_tokens) as evicted_tokens,
        sum(missed_tokens) as missed_tokens
    from ages
    group by pool, age_s
)
select
    seconds.pool,
    ranges.from_s::bigint as from_s,
    ranges.upto_s::bigint as upto_s,
    sum(seconds.hit_tokens)::bigint as hit_tokens,
    sum(seconds.evicted_tokens)::bigint as evicted_tokens,
    sum(seconds.missed_tokens)::bigint as missed_tokens
from seconds
join ranges
    on seconds.age_s >= ranges.from_s
    and (ranges.upto_s is null or seconds.age_s < ranges.upto_s)
group by seconds.pool, ranges.from_s, ranges.upto_s
order by seconds.pool, ranges.from_s
