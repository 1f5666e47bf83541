-- Question: for whom did the lifetime that the cache is written for change, and what was written again since?
-- Row: one model and tenant whose writes went from one lifetime to another from a day on (in the zone of the window):
--   the share of tokens written for an hour moved by half or more, with at least 3 writes on either side. The day is
--   the one that divides them best. rewritten_tokens are those written since after gaps, start to start in a
--   conversation, of more than 5 minutes and at most an hour, which an hour would have bridged; 0 where it became
--   longer.
-- Inputs: asked, days.
-- Columns: model, tenant, day, day_at, requests_before, requests_since, long_share_before, long_share_since,
--   clients_before, clients_since, written_tokens_since, rewritten_requests, rewritten_tokens
with spaced as (
    select
        model,
        tenant,
        client,
        started_at,
        coalesce(observed_write_5m_tokens, 0) as short_tokens,
        coalesce(observed_write_1h_tokens, 0) as long_tokens,
        epoch_us(started_at) - lag(epoch_us(started_at)) over (
            partition by conversation order by started_at, request_row
        ) as gap_us
    from asked
    where usage_state = 'present'
),
told as (
    select spaced.*, days.day, days.from_us
    from spaced
    asof join days on epoch_us(spaced.started_at) >= days.from_us
    where short_tokens + long_tokens > 0
),
by_day as (
    select
        model,
        tenant,
        day,
        min(started_at) as day_at,
        count(*) as requests,
        sum(short_tokens) as short_tokens,
        sum(long_tokens) as long_tokens
    from told
    group by model, tenant, day
),
sides as (
    select
        *,
        sum(requests) over before as requests_before,
        sum(requests) over since as requests_since,
        sum(long_tokens) over before / sum(short_tokens + long_tokens) over before as long_share_before,
        sum(long_tokens) over since / sum(short_tokens + long_tokens) over since as long_share_since
    from by_day
    window
        before as (
            partition by model, tenant order by day rows between unbounded preceding and 1 preceding
        ),
        since as (
            partition by model, tenant order by day rows between current row and unbounded following
        )
),
changed as (
    select *
    from sides
    where requests_before >= 3
        and requests_since >= 3
        and abs(long_share_before - long_share_since) >= 0.5
    qualify row_number() over (
        partition by model, tenant order by abs(long_share_before - long_share_since) desc, day
    ) = 1
)
select
    changed.model,
    changed.tenant,
    changed.day,
    changed.day_at,
    changed.requests_before::bigint as requests_before,
    changed.requests_since::bigint as requests_since,
    changed.long_share_before,
    changed.long_share_since,
    coalesce(
        list_sort(list(distinct told.client) filter (told.client is not null and told.day < changed.day)), []
    ) as clients_before,
    coalesce(
        list_sort(list(distinct told.client) filter (told.client is not null and told.day >= changed.day)), []
    ) as clients_since,
    sum(told.short_tokens + told.long_tokens) filter (told.day >= changed.day)::bigint as written_tokens_since,
    count(*) filter (
        told.day >= changed.day and told.gap_us > 300000000 and told.gap_us <= 3600000000
        and changed.long_share_since < changed.long_share_before
    ) as rewritten_requests,
    coalesce(
        sum(told.short_tokens + told.long_tokens) filter (
            told.day >= changed.day and told.gap_us > 300000000 and told.gap_us <= 3600000000
            and changed.long_share_since < changed.long_share_before
        ), 0
    )::bigint as rewritten_tokens
from changed
join told on told.model is not distinct from changed.model and told.tenant is not distinct from changed.tenant
group by all
order by rewritten_tokens desc, changed.day, changed.model nulls last, changed.tenant nulls last
