-- Question: what does one part of a replay come to?
-- Row: one, always; aside_tokens are those of requests that are no lookups. The segments and misses of rows without
--   keys follow those with keys.
-- Inputs: requests, unmeasured, lookup_facts, lookups, segments.
-- Columns: requests, request_rows, lookups, lookup_numbers, aside_tokens, hit_tokens, missed_tokens, segment_tokens,
--   keyed_segments, keyed_misses
with asked as (
    select count(*) as requests, coalesce(sum(request_row), 0)::bigint as request_rows
    from requests
),
placed as (
    select count(*) as lookups, coalesce(sum(lookup), 0)::bigint as lookup_numbers
    from lookup_facts
),
aside as (
    select coalesce(sum(requests.prompt_tokens), 0)::bigint as aside_tokens
    from unmeasured
    join requests using (request_row)
    where unmeasured.reason <> 'usage'
),
booked as (
    select
        coalesce(sum(hit_tokens), 0)::bigint as hit_tokens,
        coalesce(sum(
            miss_uncacheable_tokens + miss_in_flight_tokens + miss_invalidated_tokens + miss_expired_tokens
            + miss_evicted_tokens + miss_misrouted_tokens + miss_key_changed_tokens + miss_cold_tokens
            + miss_unexplained_tokens
        ), 0)::bigint as missed_tokens
    from lookups
),
cut as (
    select
        coalesce(sum(tokens), 0)::bigint as segment_tokens,
        count(lookup) as keyed_segments,
        count(lookup) filter (not hit) as keyed_misses
    from segments
)
select
    asked.requests,
    asked.request_rows,
    placed.lookups,
    placed.lookup_numbers,
    aside.aside_tokens,
    booked.hit_tokens,
    booked.missed_tokens,
    cut.segment_tokens,
    cut.keyed_segments,
    cut.keyed_misses
from asked
cross join placed
cross join aside
cross join booked
cross join cut
