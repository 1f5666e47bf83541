-- Question: who pays how much, and what would it be without the cache?
-- Row: one currency in all (field all), or one tenant, model, provider, service tier or day in it; value is null
--   where the log does not say. saved_cost is below 0 where caching cost more than it saved; uncached_cost and
--   actual_cost hold the output. The rows of one field sum to the bill.
-- Inputs: paid, unread, valued.
-- Columns: field, value, currency, requests, prompt_tokens, output_tokens, read_tokens, written_tokens,
--   uncached_tokens, unread_tokens, uncached_input_cost, input_cost, output_cost, uncached_cost, actual_cost,
--   saved_cost, wasted_cost
with wasted as (
    select request_row, sum(unread_tokens) as unread_tokens, sum(wasted_cost) as wasted_cost
    from unread
    group by request_row
)
select
    valued.field,
    valued.value,
    paid.currency,
    count(*) as requests,
    sum(paid.prompt_tokens)::bigint as prompt_tokens,
    sum(paid.output_tokens)::bigint as output_tokens,
    sum(paid.read_tokens)::bigint as read_tokens,
    sum(paid.written_tokens)::bigint as written_tokens,
    sum(paid.uncached_tokens)::bigint as uncached_tokens,
    coalesce(sum(wasted.unread_tokens), 0)::bigint as unread_tokens,
    sum(paid.uncached_input_cost) as uncached_input_cost,
    sum(paid.input_cost) as input_cost,
    sum(paid.output_cost) as output_cost,
    sum(paid.uncached_input_cost) + sum(paid.output_cost) as uncached_cost,
    sum(paid.input_cost) + sum(paid.output_cost) as actual_cost,
    sum(paid.uncached_input_cost) - sum(paid.input_cost) as saved_cost,
    coalesce(sum(wasted.wasted_cost), 0) as wasted_cost
from valued
join paid using (request_row)
left join wasted using (request_row)
group by valued.field, valued.value, paid.currency, valued.place
qualify count(valued.value) over (partition by valued.field) > 0
order by
    valued.place,
    if(valued.field = 'day', valued.value, null),
    actual_cost desc,
    valued.value nulls last,
    paid.currency
