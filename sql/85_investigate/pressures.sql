-- Question: do the reads that the service reports rise or fall with the requests that run beside one?
-- Row: one pool, model and class of like requests with so many others beside them: others_from (0, 1, 2, 4, 8 …) up to
--   twice as many less one. Only requests that find something in the replay: by capacity, lifetime and routing there
--   was something to read. Like ones find as much within a factor of two (from_tokens), after a use as long ago
--   (age_class, the shortest in seconds), and open their conversation or do not.
-- Inputs: asked, lives, segments.
-- Columns: pool, model, opens, age_class, from_tokens, others_from, requests, requests_with_read
with known as (
    select
        request_row,
        coalesce(model, '') as engine,
        coalesce(replica, '') as host,
        epoch_us(started_at) as start_us,
        epoch_us(finished_at) as end_us,
        greatest(epoch_us(started_at) + 1, epoch_us(coalesce(first_token_at, finished_at))) as computed_us
    from lives
    where finished_at > started_at
),
-- Where more than a tenth of the ends are not logged nobody can be said to run alone.
logged as (
    select coalesce(model, '') as engine, coalesce(replica, '') as host
    from lives
    group by engine, host
    having 10 * count(*) filter (finished_at > started_at) >= 9 * count(*)
),
starts as (
    select engine, host, start_us, sum(count(*)) over (partition by engine, host order by start_us) as n
    from known
    group by engine, host, start_us
),
ends as (
    select engine, host, end_us, sum(count(*)) over (partition by engine, host order by end_us) as n
    from known
    group by engine, host, end_us
),
-- Others that ran at any time from its arrival to its first token, or to its end where that is not logged.
beside as (
    select known.request_row, (starts.n - coalesce(ends.n, 0) - 1)::bigint as others
    from known
    join logged using (engine, host)
    asof join starts
        on starts.engine = known.engine and starts.host = known.host and known.computed_us > starts.start_us
    asof left join ends on ends.engine = known.engine and ends.host = known.host and known.start_us >= ends.end_us
),
uses as (
    select request_row, max(epoch_us(last_used_at)) as used_us
    from segments
    where hit
    group by request_row
),
found as (
    select
        asked.pool,
        asked.model,
        beside.others,
        asked.observed_hit_tokens,
        asked.hit_tokens,
        epoch_us(asked.started_at) - uses.used_us as age_us,
        asked.nth = 1 as opens
    from (
        select *, row_number() over (partition by conversation order by started_at, request_row) as nth
        from asked
    ) as asked
    join beside using (request_row)
    join uses using (request_row)
    where asked.usage_state = 'present' and asked.hit_tokens > 0
)
select
    pool,
    model,
    opens,
    case
        when age_us < 300000000 then 0
        when age_us < 900000000 then 300
        when age_us < 3600000000 then 900
        else 3600
    end as age_class,
    1::bigint << (length(bin(hit_tokens)) - 1) as from_tokens,
    if(others = 0, 0, 1::bigint << (length(bin(others)) - 1)) as others_from,
    count(*) as requests,
    count(*) filter (observed_hit_tokens > 0) as requests_with_read
from found
group by all
order by all
