-- Question: how often did a conversation stay on its replica from one turn to the next?
-- Row: one slice of slice_us microseconds with such turns.
-- Inputs: asked.
-- Parameters: from_us, slice_us.
-- Columns: slice, pairs, stayed
with turns as (
    select
        started_at,
        replica,
        lag(replica) over (partition by pool, conversation order by started_at, request_row) as replica_before
    from asked
    where conversation is not null and basis = 'simulated'
)
select
    (epoch_us(started_at) - $from_us) // $slice_us as slice,
    count(*) as pairs,
    count(*) filter (replica = replica_before) as stayed
from turns
where replica_before is not null
group by slice
order by slice
