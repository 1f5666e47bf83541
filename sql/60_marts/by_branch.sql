-- Question: by which of its rules did the router place the lookups, and what did each cost in hits?
-- Row: one branch of the router of one pool; none where the log placed the lookups.
-- Inputs: asked.
-- Columns: pool, route_branch, requests, prompt_tokens, hit_tokens, miss_misrouted_tokens
select
    pool,
    route_branch,
    count(*) as requests,
    sum(prompt_tokens)::bigint as prompt_tokens,
    sum(hit_tokens)::bigint as hit_tokens,
    sum(miss_misrouted_tokens)::bigint as miss_misrouted_tokens
from asked
where route_branch is not null
group by pool, route_branch
order by pool, requests desc, route_branch
