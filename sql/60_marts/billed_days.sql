-- Question: what does the log hold of each day's invoice?
-- Row: one model, day (UTC, as providers count) and currency. A request with usage counts as the service counted
--   it, any other as replayed; written_long_tokens live longer than the shortest lifetime.
-- Inputs: asked, cards.
-- Columns: model, day, currency, requests, uncached_tokens, read_tokens, written_tokens, written_long_tokens,
--   output_tokens, billed_cost
with counted as (
    select
        model,
        epoch_us(started_at) // 86400000000 as day,
        card,
        prompt_tokens,
        coalesce(output_tokens, 0) as output_tokens,
        if(usage_state = 'present', observed_hit_tokens, hit_tokens) as read_tokens,
        if(
            usage_state = 'present',
            coalesce(observed_write_5m_tokens, 0) + coalesce(observed_write_other_tokens, 0),
            written_tokens
        ) as written_tokens,
        if(usage_state = 'present', coalesce(observed_write_1h_tokens, 0), 0) as written_long_tokens
    from asked
),
sums as (
    select
        model,
        day,
        card,
        count(*) as requests,
        sum(prompt_tokens - read_tokens - written_tokens - written_long_tokens)::bigint as uncached_tokens,
        sum(read_tokens)::bigint as read_tokens,
        sum(written_tokens)::bigint as written_tokens,
        sum(written_long_tokens)::bigint as written_long_tokens,
        sum(output_tokens)::bigint as output_tokens
    from counted
    group by model, day, card
)
select
    sums.model,
    (date '1970-01-01' + sums.day::integer)::varchar as day,
    cards.currency,
    sum(requests)::bigint as requests,
    sum(uncached_tokens)::bigint as uncached_tokens,
    sum(read_tokens)::bigint as read_tokens,
    sum(written_tokens)::bigint as written_tokens,
    sum(written_long_tokens)::bigint as written_long_tokens,
    sum(output_tokens)::bigint as output_tokens,
    sum(
        uncached_tokens::decimal(16, 0) * cards.base_price
        + read_tokens::decimal(16, 0) * cards.read_price
        + written_tokens::decimal(16, 0) * cards.write_price
        + written_long_tokens::decimal(16, 0) * cards.write_1h_price
        + output_tokens::decimal(16, 0) * cards.output_price
    ) as billed_cost
from sums
join cards using (card)
group by sums.model, sums.day, cards.currency
order by sums.day, sums.model nulls last, cards.currency
