-- Question: whose cache is written day after day and never read?
-- Row: one model and tenant on one day (UTC) with at least 10 lookups that carry usage, whose writes grew while
--   nothing was read. A first day is told as well: what 10 requests do not share should not be written.
-- Inputs: asked.
-- Columns: model, tenant, day_at, requests, written_tokens, prompt_tokens
with told as (
    select
        model,
        tenant,
        date_trunc('day', started_at) as day_at,
        prompt_tokens,
        observed_hit_tokens,
        coalesce(observed_write_5m_tokens, 0) + coalesce(observed_write_1h_tokens, 0)
        + coalesce(observed_write_other_tokens, 0) as written_tokens
    from asked
    where usage_state = 'present'
)
select
    model,
    tenant,
    day_at,
    count(*) as requests,
    sum(written_tokens)::bigint as written_tokens,
    sum(prompt_tokens)::bigint as prompt_tokens
from told
group by all
having count(*) >= 10 and sum(observed_hit_tokens) = 0 and sum(written_tokens) > 0
order by written_tokens desc, model nulls last, tenant nulls last, day_at
