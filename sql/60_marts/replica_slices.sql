-- Question: which cache was warm when?
-- Row: one replica and slice of bucket_us microseconds with lookups, by arrival.
-- Inputs: asked.
-- Parameters: from_us (first microsecond), bucket_us (width of a slice).
-- Columns: pool, replica, slice_at, requests, prompt_tokens, hit_tokens
select
    pool,
    replica,
    make_timestamptz($from_us + (epoch_us(started_at) - $from_us) // $bucket_us * $bucket_us) as slice_at,
    count(*) as requests,
    sum(prompt_tokens)::bigint as prompt_tokens,
    sum(hit_tokens)::bigint as hit_tokens
from asked
group by pool, replica, slice_at
order by pool nulls last, replica, slice_at
