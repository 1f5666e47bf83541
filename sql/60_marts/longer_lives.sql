-- Question: what would be written again under the shorter and under the longer lifetime that can be had, by gaps alone?
-- Row: one model and rate card that sells a longer lifetime at another price, of lookups that carry usage and no
--   keys, so that no replay can tell, and name their conversation. What was there before and is asked again is lost
--   where the gap, start to start, outlives the lifetime, whatever the service did with it; grown_tokens are written
--   under either lifetime.
-- Inputs: asked, cards.
-- Columns: model, card, requests, lost_short_tokens, lost_long_tokens, grown_tokens
with counted as (
    select
        asked.request_row,
        asked.started_at,
        asked.conversation,
        asked.model,
        asked.card,
        cards.short_ttl_us,
        cards.long_ttl_us,
        asked.observed_hit_tokens as read_tokens,
        coalesce(asked.observed_write_5m_tokens, 0) + coalesce(asked.observed_write_1h_tokens, 0)
        + coalesce(asked.observed_write_other_tokens, 0) as written_tokens
    from asked
    join cards using (card)
    where asked.usage_state = 'present'
        and asked.basis = 'observed'
        and asked.conversation is not null
        and cards.long_ttl_us > cards.short_ttl_us
        and cards.base_price > 0
),
spaced as (
    select
        *,
        epoch_us(started_at) - lag(epoch_us(started_at)) over turn as gap_us,
        least(read_tokens + written_tokens, lag(read_tokens + written_tokens) over turn) as kept_tokens
    from counted
    window turn as (partition by conversation order by started_at, request_row)
)
select
    model,
    card,
    count(*) as requests,
    coalesce(sum(kept_tokens) filter (gap_us > short_ttl_us), 0)::bigint as lost_short_tokens,
    coalesce(sum(kept_tokens) filter (gap_us > long_ttl_us), 0)::bigint as lost_long_tokens,
    sum(
        case
            when gap_us > short_ttl_us then read_tokens + written_tokens - kept_tokens
            else written_tokens
        end
    )::bigint as grown_tokens
from spaced
group by model, card
having sum(written_tokens) > 0
order by model nulls last, card
