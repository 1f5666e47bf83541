-- Question: do the calls that a client is said to make to keep its prefixes alive show in the log?
-- Row: one model and tenant of a pool with such calls. Between two requests of one conversation a call is due after
--   each interval, start to start, as many in a row as are said at most. A call is one with at most one token of
--   output. A gap is lost where calls were due and fewer are in the log: missed_tokens are what the request behind it
--   did not find although it was there before.
-- Inputs: asked, keeping.
-- Columns: pool, model, tenant, interval_us, gaps, expected_calls, seen_calls, lost_gaps, missed_tokens, first_at
with turns as (
    select
        asked.request_row,
        asked.pool,
        asked.model,
        asked.tenant,
        asked.conversation,
        asked.started_at,
        asked.miss_expired_tokens + asked.miss_unexplained_tokens as missed_tokens,
        coalesce(asked.output_tokens, 2) <= 1 as is_call,
        keeping.interval_us,
        keeping.most_calls
    from asked
    join keeping on keeping.pool is not distinct from asked.pool
    where asked.conversation is not null
),
counted as (
    select
        *,
        sum(is_call::integer) over (partition by conversation order by started_at, request_row) as calls
    from turns
),
spaced as (
    select
        *,
        epoch_us(started_at) - lag(epoch_us(started_at)) over turn as gap_us,
        calls - lag(calls) over turn as seen_calls
    from counted
    where not is_call
    window turn as (partition by conversation order by started_at, request_row)
),
due as (
    select
        *,
        least(gap_us // interval_us, coalesce(most_calls, gap_us // interval_us)) as expected_calls
    from spaced
    where gap_us >= interval_us
)
select
    pool,
    model,
    tenant,
    interval_us,
    count(*) as gaps,
    sum(expected_calls)::bigint as expected_calls,
    sum(least(seen_calls, expected_calls))::bigint as seen_calls,
    count(*) filter (seen_calls < expected_calls) as lost_gaps,
    coalesce(sum(missed_tokens) filter (seen_calls < expected_calls), 0)::bigint as missed_tokens,
    min(started_at) filter (seen_calls < expected_calls) as first_at
from due
group by pool, model, tenant, interval_us
order by missed_tokens desc, pool nulls last, model nulls last, tenant nulls last
