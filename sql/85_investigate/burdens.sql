-- Question: which few things carry most of what misses cost?
-- Row: one thing that somebody can change: a reset, a kind of change of prompts in one release, a replica that
--   was asked instead of another, or had no room, a tenant or a client that came too late; the most tokens first.
--   cost is what its misses cost above the price of a read.
-- Inputs: segments, asked, cards.
-- Columns: cause, thing, release, tokens, requests, currency, cost, first_at, last_at
with missed as (
    select
        segments.cause,
        case segments.cause
            when 'invalidated' then concat_ws(' ', segments.detail, segments.event_id)
            when 'key_changed' then concat_ws(', ', segments.detail, segments.changed_part, segments.varies)
            when 'expired' then coalesce('tenant ' || asked.tenant, 'client ' || asked.client, 'all requests')
            else 'replica ' || segments.replica
        end as thing,
        if(segments.cause = 'key_changed', asked.release, null) as release,
        segments.request_row,
        segments.tokens,
        asked.started_at,
        cards.currency,
        (segments.written_tokens - segments.written_1h_tokens)::decimal(16, 0) * cards.write_price
            + segments.written_1h_tokens::decimal(16, 0) * cards.write_1h_price
            + (segments.tokens - segments.written_tokens)::decimal(16, 0) * cards.base_price
            - segments.tokens::decimal(16, 0) * cards.read_price as cost
    from segments
    join asked using (request_row)
    join cards using (card)
    where not segments.hit
        and segments.cause in ('in_flight', 'invalidated', 'expired', 'evicted', 'misrouted', 'key_changed')
)
select
    cause,
    thing,
    release,
    sum(tokens)::bigint as tokens,
    count(distinct request_row) as requests,
    currency,
    sum(cost) as cost,
    min(started_at) as first_at,
    max(started_at) as last_at
from missed
group by cause, thing, release, currency
order by tokens desc, cause, thing, release nulls last, currency
