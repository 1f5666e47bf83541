-- Question: how much of each replica's memory did running requests hold, and when the most?
-- Row: one replica and slice of time in which requests ran, as far as that is known; slices are bucket_us wide, or as
--   wide as those that were replayed where these are wider.
-- Inputs: held, replicas.
-- Parameters: from_us (first microsecond), to_us (first microsecond behind), bucket_us (width of a slice).
-- Columns: pool, replica, slice_at, length_us, peak_blocks, block_us
with cut as (
    select
        replicas.pool,
        replicas.name as replica,
        greatest(epoch_us(held.slice_at), $from_us) as begins_us,
        greatest($bucket_us, held.width_us) as length_us,
        held.peak_blocks,
        held.block_us
    from held
    inner join replicas on held.replica = replicas.replica
    where epoch_us(held.slice_at) + held.width_us > $from_us and epoch_us(held.slice_at) < $to_us
)
select
    pool,
    replica,
    make_timestamptz($from_us + (begins_us - $from_us) // length_us * length_us) as slice_at,
    length_us,
    max(peak_blocks) as peak_blocks,
    sum(block_us)::bigint as block_us
from cut
group by pool, replica, slice_at, length_us
order by pool, replica, slice_at
