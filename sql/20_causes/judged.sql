-- Question: by which rule was each piece of a prompt missed, and what proves it?
-- Row: one row of facts below the cap of its lookup, in numbers of this replay; cause is null for a hit.
-- Inputs: facts, lookup_facts, used_lookups, pools, events, warm_ups, changed.
-- Columns: request_row, lookup, first_block, n_blocks, last_block, block_size, hit, cause, detail,
--   elsewhere, previous, last_used_at, event, resident_replica, needed_capacity_blocks, needed_ttl_us,
--   removed_at, removed_by, change, other_replica, more_capacity, longer_ttl, stable_prefix
with asked as (
    select
        lookup_facts.lookup,
        lookup_facts.request_row,
        lookup_facts.admitted_at,
        lookup_facts.block_size,
        lookup_facts.cap_blocks,
        lookup_facts.sold_ttl_us,
        pools.ttl_us,
        pools.capacity_blocks,
        exists (
            select 1
            from warm_ups
            where warm_ups.replica = lookup_facts.replica
                and warm_ups.from_at <= lookup_facts.admitted_at
                and lookup_facts.admitted_at < warm_ups.to_at
        ) as warming_up
    from lookup_facts
    join pools using (pool)
),
-- Rule 4 looks at this replica where it ever had the key, else at the one that used it last.
chosen as (
    select
        facts.*,
        own_previous is not null as own,
        own_previous is null and resident_replica is null and else_previous is not null as elsewhere,
        coalesce(in_flight_lookup, own_previous, else_previous, changed.previous) as previous,
        changed.detail as changed_how,
        if(own_previous is not null, own_reset, else_reset) as reset,
        if(own_previous is not null, own_distance_blocks, else_distance_blocks) as distance_blocks
    from facts
    left join changed using (change)
),
timed as (
    select
        chosen.*,
        asked.request_row,
        asked.block_size,
        coalesce(chosen.ttl_us, asked.ttl_us) as kept_us,
        asked.capacity_blocks,
        asked.sold_ttl_us,
        asked.warming_up,
        used.admitted_at as last_used_at,
        epoch_us(asked.admitted_at) - epoch_us(used.admitted_at) as gap_us
    from chosen
    -- What is recomputed behind the cap has facts as well, and is uncacheable.
    join asked on asked.lookup = chosen.lookup and chosen.first_block < asked.cap_blocks
    left join used_lookups as used on used.lookup = chosen.previous
),
ruled as (
    select
        *,
        cause_of(
            hit, rule, own, resident_replica is not null, elsewhere, change is not null, reset is not null,
            gap_us > kept_us
        ) as cause
    from timed
)
select
    ruled.request_row,
    ruled.lookup,
    ruled.first_block,
    ruled.n_blocks,
    ruled.last_block,
    ruled.block_size,
    ruled.hit,
    ruled.cause,
    case ruled.cause
        when 'cold' then if(ruled.warming_up, 'window_start', 'new_content')
        when 'key_changed' then ruled.changed_how
        when 'invalidated' then events.kind
        when 'uncacheable' then ruled.rule
    end as detail,
    not ruled.hit and ruled.rule is null and ruled.elsewhere as elsewhere,
    ruled.previous,
    ruled.last_used_at,
    if(ruled.cause = 'invalidated', ruled.reset, null) as event,
    if(ruled.hit, null, ruled.resident_replica) as resident_replica,
    if(ruled.hit, null, ruled.distance_blocks) as needed_capacity_blocks,
    if(ruled.hit or ruled.cause = 'in_flight', null, ruled.gap_us) as needed_ttl_us,
    if(ruled.hit, null, ruled.removed_at) as removed_at,
    if(ruled.hit, null, ruled.removed_by) as removed_by,
    if(ruled.cause = 'key_changed', ruled.change, null) as change,
    not ruled.hit and ruled.resident_replica is not null as other_replica,
    -- One change alone: more room helps only what no reset and no TTL took, a longer TTL only what had room.
    not ruled.hit and ruled.rule is null and ruled.own and ruled.reset is null
        and coalesce(ruled.gap_us <= ruled.kept_us, true) as more_capacity,
    not ruled.hit and ruled.rule is null and ruled.own and ruled.reset is null
        and coalesce(ruled.gap_us > ruled.kept_us, false)
        -- A provider sells the lifetimes that it sells.
        and coalesce(ruled.gap_us <= ruled.sold_ttl_us, true)
        and (
            ruled.capacity_blocks is null or coalesce(ruled.distance_blocks <= ruled.capacity_blocks, false)
        ) as longer_ttl,
    -- With the change undone it would have been where the other prompt left it, unless that had expired.
    ruled.cause = 'key_changed' and coalesce(ruled.gap_us <= ruled.kept_us, true) as stable_prefix
from ruled
left join events on events.event = ruled.reset
