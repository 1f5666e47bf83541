-- Question: do the parts of a replay hold each of its requests and lookups once, and all of their tokens?
-- Row: one sum over the parts that differs from the whole; none is right. Numbers of rows and lookups are summed up as
--   well, so that one that is there twice does not stand in for one that is missing.
-- Inputs: account, requests, lookup_facts.
-- Columns: total, held, expected
with held as (
    select
        coalesce(sum(requests), 0)::bigint as requests,
        coalesce(sum(request_rows), 0)::bigint as request_rows,
        coalesce(sum(lookups), 0)::bigint as lookups,
        coalesce(sum(lookup_numbers), 0)::bigint as lookup_numbers,
        coalesce(sum(aside_tokens + hit_tokens + missed_tokens), 0)::bigint as booked_tokens,
        coalesce(sum(aside_tokens + segment_tokens), 0)::bigint as segment_tokens
    from account
),
asked as (
    select
        count(*) as requests,
        coalesce(sum(request_row), 0)::bigint as request_rows,
        coalesce(sum(prompt_tokens), 0)::bigint as prompt_tokens
    from requests
),
placed as (
    select count(*) as lookups, coalesce(sum(lookup), 0)::bigint as lookup_numbers
    from lookup_facts
),
totals as (
    select 'requests' as total, held.requests as held, asked.requests as expected from held cross join asked
    union all
    select 'request rows', held.request_rows, asked.request_rows from held cross join asked
    union all
    select 'lookups', held.lookups, placed.lookups from held cross join placed
    union all
    select 'lookup numbers', held.lookup_numbers, placed.lookup_numbers from held cross join placed
    union all
    select 'tokens of the books', held.booked_tokens, asked.prompt_tokens from held cross join asked
    union all
    select 'tokens of the segments', held.segment_tokens, asked.prompt_tokens from held cross join asked
)
select total, held, expected
from totals
where held <> expected
order by total
