-- Question: does every cut of the money sum to the whole of it, and the whole to the prompts of the window?
-- Row: one field and currency, or the whole window, where it does not; none is right.
-- Inputs: spend, totals.
-- Columns: field, currency, tokens, expected_tokens, actual_cost, expected_cost
with summed as (
    select
        field,
        currency,
        sum(read_tokens + written_tokens + uncached_tokens)::bigint as tokens,
        sum(actual_cost) as actual_cost
    from spend
    group by field, currency
),
whole as (
    select currency, prompt_tokens as tokens, actual_cost
    from spend
    where field = 'all'
)
select
    summed.field,
    summed.currency,
    summed.tokens,
    whole.tokens as expected_tokens,
    summed.actual_cost,
    whole.actual_cost as expected_cost
from summed
left join whole using (currency)
where summed.tokens is distinct from whole.tokens or summed.actual_cost is distinct from whole.actual_cost
union all
select
    'window' as field,
    null as currency,
    coalesce(sum(summed.tokens), 0)::bigint as tokens,
    any_value(totals.prompt_tokens) as expected_tokens,
    null as actual_cost,
    null as expected_cost
from totals
left join summed on summed.field = 'all'
where totals.basis = 'all'
having tokens <> expected_tokens
order by 1, 2
