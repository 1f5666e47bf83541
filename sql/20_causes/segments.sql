-- Question: what became of every prompt token, piece by piece, under the names of the log?
-- Row: one segment of one lookup, hit or missed; the pieces of a lookup sum to its prompt.
-- Inputs: merged, uncacheable, observed_spans, changed, lookup_facts, used_lookups, requests, named_requests,
--   replicas, events, block_keys.
-- Columns: request_row, lookup, request_id, source, source_line, admitted_at, pool, replica, first_block,
--   n_blocks, first_token, tokens, written_tokens, written_1h_tokens, hit, cause, detail, previous_row,
--   prefix_key, previous_request_id, last_used_at,
--   removed_at, removed_by, elsewhere, resident_replica, route_branch, needed_capacity_blocks, needed_ttl_s,
--   event_id, changed_part, changed_at_token, changed_new_tokens, changed_old_tokens, changed_layer, varies,
--   hit_on_other_replica, hit_with_more_capacity, hit_with_longer_ttl, hit_with_stable_prefix
with pieces as (
    select *, if(hit, 0, tokens) as written_tokens
    from merged
    union all by name
    select *, false as hit, 'uncacheable' as cause, false as elsewhere
    from uncacheable
),
named as (
    select
        pieces.*,
        pieces.first_block * lookup_facts.block_size as first_token,
        lookup_facts.admitted_at,
        lookup_facts.pool,
        lookup_facts.route_branch,
        -- What a hosted cache keeps for longer than the rest reaches from the hit to the last mark that asks for it.
        least(
            pieces.written_tokens,
            greatest(0, coalesce(lookup_facts.long_blocks, 0) - pieces.first_block) * lookup_facts.block_size
        ) as written_1h_tokens,
        replicas.name as replica,
        before.request_row as previous_row,
        before.request_id as previous_request_id,
        remover.request_id as removed_by_id
    from pieces
    join lookup_facts using (lookup)
    join replicas on replicas.replica = lookup_facts.replica
    left join used_lookups as before on before.lookup = pieces.previous
    left join used_lookups as remover on remover.lookup = pieces.removed_by
),
-- A row with usage and no keys.
observed as (
    select
        observed_spans.* exclude (place),
        named_requests.request_id as previous_request_id,
        requests.pool,
        requests.replica_name as replica,
        coalesce(requests.admitted_at, requests.started_at) as admitted_at,
        0 as first_block,
        0 as n_blocks,
        false as elsewhere
    from observed_spans
    join requests using (request_row)
    left join named_requests on named_requests.request_row = observed_spans.previous_row
),
everything as (
    select * from named
    union all by name
    select * from observed
)
select
    everything.request_row,
    everything.lookup,
    asking.request_id,
    asking.source,
    asking.source_line,
    everything.admitted_at,
    everything.pool,
    everything.replica,
    everything.first_block,
    everything.n_blocks,
    everything.first_token,
    everything.tokens,
    everything.written_tokens,
    everything.written_1h_tokens,
    everything.hit,
    everything.cause,
    case everything.cause
        when 'misrouted' then resident.name
        when 'expired' then printf('%.6g s', everything.needed_ttl_us / 1e6)
        when 'evicted' then everything.needed_capacity_blocks || ' blocks'
        else everything.detail
    end as detail,
    everything.previous_row,
    block_keys.prefix_key,
    everything.previous_request_id,
    everything.last_used_at,
    everything.removed_at,
    everything.removed_by_id as removed_by,
    everything.elsewhere,
    resident.name as resident_replica,
    everything.route_branch,
    everything.needed_capacity_blocks,
    everything.needed_ttl_us / 1e6 as needed_ttl_s,
    events.event_id,
    changed.part as changed_part,
    changed.at_token as changed_at_token,
    changed.new_tokens as changed_new_tokens,
    changed.old_tokens as changed_old_tokens,
    changed.layer as changed_layer,
    changed.varies,
    coalesce(everything.other_replica, false) as hit_on_other_replica,
    coalesce(everything.more_capacity, false) as hit_with_more_capacity,
    coalesce(everything.longer_ttl, false) as hit_with_longer_ttl,
    coalesce(everything.stable_prefix, false) as hit_with_stable_prefix
from everything
join requests as asking on asking.request_row = everything.request_row
left join block_keys on block_keys.block = everything.last_block
left join replicas as resident on resident.replica = everything.resident_replica
left join events on events.event = everything.event
left join changed on changed.change = everything.change
order by everything.lookup nulls last, everything.request_row, everything.first_token, everything.hit desc
