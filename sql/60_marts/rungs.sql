-- Question: what would the window hit if fewer limits applied, and what does each limit cost?
-- Row: one rung; lost_tokens is what is lost against the rung before, on pooled against the whole prompt. Refused
--   prompts are left out. The rung observed covers the lookups with usage only and is compared with their own
--   simulated hits; it is absent where there are none.
-- Inputs: asked.
-- Columns: rung, prompt_tokens, hit_tokens, lost_tokens
with bound as (
    select
        sum(prompt_tokens)::bigint as prompt_tokens,
        sum(pooled_hit_tokens)::bigint as pooled,
        sum(per_replica_hit_tokens)::bigint as per_replica,
        sum(resets_hit_tokens)::bigint as resets,
        sum(ttl_hit_tokens)::bigint as ttl,
        sum(capacity_hit_tokens)::bigint as capacity
    from asked
    where pooled_hit_tokens is not null
    having count(*) > 0
),
seen as (
    select
        sum(prompt_tokens)::bigint as prompt_tokens,
        sum(hit_tokens)::bigint as simulated,
        sum(observed_hit_tokens)::bigint as observed
    from asked
    where pooled_hit_tokens is not null and usage_state = 'present'
    having count(*) > 0
),
rungs as (
    select
        0 as place,
        'pooled' as rung,
        prompt_tokens,
        pooled as hit_tokens,
        prompt_tokens - pooled as lost_tokens
    from bound
    union all
    select 1, 'per_replica', prompt_tokens, per_replica, pooled - per_replica from bound
    union all
    select 2, 'resets', prompt_tokens, resets, per_replica - resets from bound
    union all
    select 3, 'ttl', prompt_tokens, ttl, resets - ttl from bound
    union all
    select 4, 'capacity', prompt_tokens, capacity, ttl - capacity from bound
    union all
    select 5, 'observed', prompt_tokens, observed, simulated - observed from seen
)
select rung, prompt_tokens, hit_tokens, lost_tokens
from rungs
order by place
