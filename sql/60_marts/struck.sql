-- Question: which replicas did each reset of the window strike?
-- Row: one reset and one replica; several rows may share event_id.
-- Inputs: events, replicas.
-- Parameters: from_us, to_us.
-- Columns: event_id, pool, reset_at, kind, note, replica
select
    events.event_id,
    events.pool,
    events.at as reset_at,
    events.kind,
    events.note,
    replicas.name as replica
from events
join replicas using (replica)
where epoch_us(events.at) >= $from_us and epoch_us(events.at) < $to_us
order by events.at, events.pool, events.event_id, replicas.name
