-- Question: how many tokens of each cell of a grid hit, and how many did each cause take?
-- Row: one cell, pool, rate card and cause; cause is null for hits.
-- Inputs: sums.
-- Columns: cell, pool, card, cause, tokens, written_tokens, written_1h_tokens
with caused as (
    select
        *,
        case
            when capped then 'uncacheable'
            -- A row with usage and no keys: no replay changes what usage proves.
            when observed then proven
            else cause_of(hit, rule, own, resident, elsewhere, changed, reset, outlived)
        end as cause
    from sums
)
select
    cell,
    pool,
    card,
    cause,
    sum(tokens)::bigint as tokens,
    sum(written_tokens)::bigint as written_tokens,
    sum(written_1h_tokens)::bigint as written_1h_tokens
from caused
group by cell, pool, card, cause
order by cell, pool nulls last, card, cause nulls first
