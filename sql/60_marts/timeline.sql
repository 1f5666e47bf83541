-- Question: how did hits and misses move over the window?
-- Row: one slice of bucket_us microseconds, quiet ones too.
-- Inputs: asked.
-- Parameters: from_us, to_us, bucket_us.
-- Columns: bucket_at, requests, prompt_tokens, hit_tokens, miss_uncacheable_tokens, miss_in_flight_tokens,
--   miss_invalidated_tokens, miss_expired_tokens, miss_evicted_tokens, miss_misrouted_tokens,
--   miss_key_changed_tokens, miss_cold_tokens, miss_unexplained_tokens, observed_prompt_tokens,
--   observed_hit_tokens
with slices as (
    select unnest(range((greatest($to_us - $from_us, 0) + $bucket_us - 1) // $bucket_us)) as slice
),
sums as (
    select
        (epoch_us(started_at) - $from_us) // $bucket_us as slice,
        count(*) as requests,
        sum(columns('^(prompt|hit|miss_.+)_tokens$'))::bigint as '\0',
        sum(prompt_tokens) filter (usage_state = 'present')::bigint as observed_prompt_tokens,
        sum(observed_hit_tokens) filter (usage_state = 'present')::bigint as observed_hit_tokens
    from asked
    group by slice
)
select
    make_timestamptz($from_us + slices.slice * $bucket_us) as bucket_at,
    coalesce(columns(sums.* exclude (slice)), 0) as '\0'
from slices
left join sums using (slice)
order by slices.slice
