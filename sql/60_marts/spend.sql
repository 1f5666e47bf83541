-- Question: who pays how much, and what would it be without the cache?
-- Row: one currency in all (field all), or one tenant, model, provider, service tier or day in it; value is null
--   where the log does not say. saved_cost is below 0 where caching cost more than it saved; uncached_cost and
--   actual_cost hold the output. The rows of one field sum to the bill.
-- Inputs: paid, unread, asked, days.
-- Columns: field, value, currency, requests, prompt_tokens, output_tokens, read_tokens, written_tokens,
--   uncached_tokens, unread_tokens, uncached_input_cost, input_cost, output_cost, uncached_cost, actual_cost,
--   saved_cost, wasted_cost
with dated as (
    select asked.request_row, days.day
    from asked
    asof join days on epoch_us(asked.started_at) >= days.from_us
),
valued as (
    select
        unnest([
            {'field': 'all', 'value': 'all', 'place': 0},
            {'field': 'model', 'value': asked.model, 'place': 1},
            {'field': 'tenant', 'value': asked.tenant, 'place': 2},
            {'field': 'provider', 'value': asked.provider, 'place': 3},
            {'field': 'service_tier', 'value': asked.service_tier, 'place': 4},
            {'field': 'day', 'value': dated.day, 'place': 5}
        ], recursive := true),
        paid.*,
        coalesce(unread.unread_tokens, 0) as unread_tokens,
        coalesce(unread.wasted_cost, 0) as wasted_cost
    from paid
    join asked using (request_row)
    join dated using (request_row)
    left join unread using (request_row)
)
select
    field,
    value,
    currency,
    count(*) as requests,
    sum(prompt_tokens)::bigint as prompt_tokens,
    sum(output_tokens)::bigint as output_tokens,
    sum(read_tokens)::bigint as read_tokens,
    sum(written_tokens)::bigint as written_tokens,
    sum(uncached_tokens)::bigint as uncached_tokens,
    sum(unread_tokens)::bigint as unread_tokens,
    sum(uncached_input_cost) as uncached_input_cost,
    sum(input_cost) as input_cost,
    sum(output_cost) as output_cost,
    sum(uncached_input_cost) + sum(output_cost) as uncached_cost,
    sum(input_cost) + sum(output_cost) as actual_cost,
    sum(uncached_input_cost) - sum(input_cost) as saved_cost,
    sum(wasted_cost) as wasted_cost
from valued
group by field, value, currency, place
qualify count(value) over (partition by field) > 0
order by place, if(field = 'day', value, null), actual_cost desc, value nulls last, currency
