-- Question: what became of the prompt of one request, from its first token to its last, and what proves it?
-- Row: one segment; first_token is null for a row without keys, whose tokens have no known place. An event that
--   struck several replicas counts once, at its first.
-- Inputs: segments, events, requests.
-- Parameters: row (its request_row).
-- Columns: first_token, tokens, hit, cause, detail, previous_request_id, last_used_at, removed_at, removed_by,
--   elsewhere, resident_replica, needed_capacity_blocks, needed_ttl_s, event_id, event_at, kind, note,
--   changed_part, changed_at_token, changed_new_tokens, changed_old_tokens, varies, hit_on_other_replica,
--   hit_with_more_capacity, hit_with_longer_ttl, hit_with_stable_prefix, model, previous_model, adapter,
--   previous_adapter
with resets as (
    select event_id, min(events.at) as event_at, arg_min(kind, event) as kind, arg_min(note, event) as note
    from events
    group by event_id
),
placed as (
    select
        *,
        (sum(tokens) over (order by first_block, hit desc rows unbounded preceding) - tokens)::bigint as place
    from segments
    where request_row = $row
)
select
    if(placed.lookup is null, null, placed.place) as first_token,
    placed.tokens,
    placed.hit,
    placed.cause,
    placed.detail,
    placed.previous_request_id,
    placed.last_used_at,
    placed.removed_at,
    placed.removed_by,
    placed.elsewhere,
    placed.resident_replica,
    placed.needed_capacity_blocks,
    placed.needed_ttl_s,
    placed.event_id,
    resets.event_at,
    resets.kind,
    resets.note,
    placed.changed_part,
    placed.changed_at_token,
    placed.changed_new_tokens,
    placed.changed_old_tokens,
    placed.varies,
    placed.hit_on_other_replica,
    placed.hit_with_more_capacity,
    placed.hit_with_longer_ttl,
    placed.hit_with_stable_prefix,
    asking.model,
    before.model as previous_model,
    asking.adapter,
    before.adapter as previous_adapter
from placed
left join resets using (event_id)
left join requests as asking on asking.request_row = placed.request_row
left join requests as before on before.request_row = placed.previous_row
order by placed.place
