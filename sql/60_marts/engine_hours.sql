-- Question: what did engines say of their caches, hour by hour, beside what the replay gives?
-- Row: one replica and hour (UTC) with KV events or counters; pool is null where they are of nobody known. The
--   counted_ columns are growth of counters, resident_blocks is the last of the hour. The event_ columns are over the
--   lookups admitted while events were told: blocks that may hit, that hit in the replay, that were resident by the
--   events, and the sum of the differences. prompt_tokens and what follows are of the lookups that arrived in the hour.
-- Inputs: kv_changes, kv_lookups, counters, asked.
-- Parameters: from_us, to_us.
-- Columns: hour_at, pool, replica, counted_query_tokens, counted_hit_tokens, counted_preemptions, stored_blocks,
--   removed_blocks, unknown_blocks, clears, resident_blocks, event_lookups, event_cap_blocks, event_simulated_blocks,
--   event_resident_blocks, event_differing_blocks, prompt_tokens, simulated_hit_tokens, ideal_hit_tokens
with counted as (
    select
        date_trunc('hour', counters.at - interval 1 microsecond) as hour_at,
        pool,
        replica,
        sum(amount) filter (metric = 'query_tokens')::bigint as counted_query_tokens,
        sum(amount) filter (metric = 'hit_tokens')::bigint as counted_hit_tokens,
        sum(amount) filter (metric = 'preemptions')::bigint as counted_preemptions
    from counters
    where epoch_us(counters.at) > $from_us and epoch_us(counters.at) <= $to_us
    group by all
),
changed as (
    select
        date_trunc('hour', kv_changes.at) as hour_at,
        pool,
        replica,
        sum(stored_blocks)::bigint as stored_blocks,
        sum(removed_blocks)::bigint as removed_blocks,
        sum(unknown_blocks)::bigint as unknown_blocks,
        count(*) filter (cleared) as clears,
        arg_max(resident_blocks, kv_changes.at) as resident_blocks
    from kv_changes
    where epoch_us(kv_changes.at) >= $from_us and epoch_us(kv_changes.at) < $to_us
    group by all
),
compared as (
    select
        date_trunc('hour', kv_lookups.at) as hour_at,
        pool,
        replica,
        count(*) as event_lookups,
        sum(cap_blocks)::bigint as event_cap_blocks,
        sum(simulated_blocks)::bigint as event_simulated_blocks,
        sum(resident_blocks)::bigint as event_resident_blocks,
        sum(abs(simulated_blocks - resident_blocks))::bigint as event_differing_blocks
    from kv_lookups
    where epoch_us(kv_lookups.at) >= $from_us and epoch_us(kv_lookups.at) < $to_us
    group by all
),
simulated as (
    select
        date_trunc('hour', started_at) as hour_at,
        pool,
        replica,
        sum(prompt_tokens)::bigint as prompt_tokens,
        sum(hit_tokens)::bigint as simulated_hit_tokens,
        sum(ideal_hit_tokens)::bigint as ideal_hit_tokens
    from asked
    where basis = 'simulated'
    group by all
),
hours as (
    select hour_at, pool, replica from counted
    union
    select hour_at, pool, replica from changed
    union
    select hour_at, pool, replica from compared
)
select
    hours.hour_at,
    hours.pool,
    hours.replica,
    counted.counted_query_tokens,
    counted.counted_hit_tokens,
    counted.counted_preemptions,
    changed.stored_blocks,
    changed.removed_blocks,
    changed.unknown_blocks,
    changed.clears,
    changed.resident_blocks,
    compared.event_lookups,
    compared.event_cap_blocks,
    compared.event_simulated_blocks,
    compared.event_resident_blocks,
    compared.event_differing_blocks,
    simulated.prompt_tokens,
    simulated.simulated_hit_tokens,
    simulated.ideal_hit_tokens
from hours
left join counted
    on counted.hour_at = hours.hour_at
    and counted.replica = hours.replica
    and counted.pool is not distinct from hours.pool
left join changed
    on changed.hour_at = hours.hour_at
    and changed.replica = hours.replica
    and changed.pool is not distinct from hours.pool
left join compared
    on compared.hour_at = hours.hour_at
    and compared.replica = hours.replica
    and compared.pool is not distinct from hours.pool
left join simulated
    on simulated.hour_at = hours.hour_at
    and simulated.replica = hours.replica
    and simulated.pool is not distinct from hours.pool
order by hours.hour_at, hours.pool nulls last, hours.replica
