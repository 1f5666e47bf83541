-- Question: what does a pool whose router draws hit under each seed, and how even is its load then?
-- Row: one draw of one pool, over its lookups of the window; draw 0 is the replay itself. Imbalance is the busiest
--   replica over the mean of all that lived in the window, by requests and by the tokens that had to be computed.
-- Inputs: draws, asked, balance.
-- Columns: pool, draw, requests, prompt_tokens, hit_tokens, imbalance_requests, imbalance_prefill
with loads as (
    select
        draws.pool,
        draws.draw,
        draws.replica,
        count(*) as requests,
        sum(asked.prompt_tokens)::bigint as prompt_tokens,
        sum(draws.hit_tokens)::bigint as hit_tokens
    from draws
    join asked on asked.lookup = draws.lookup
    group by draws.pool, draws.draw, draws.replica
),
sums as (
    select
        pool,
        draw,
        sum(requests)::bigint as requests,
        sum(prompt_tokens)::bigint as prompt_tokens,
        sum(hit_tokens)::bigint as hit_tokens,
        max(requests) as most_requests,
        max(prompt_tokens - hit_tokens) as most_prefill
    from loads
    group by pool, draw
)
select
    sums.pool,
    sums.draw,
    sums.requests,
    sums.prompt_tokens,
    sums.hit_tokens,
    sums.most_requests * balance.n_replicas / sums.requests as imbalance_requests,
    sums.most_prefill * balance.n_replicas / nullif(sums.prompt_tokens - sums.hit_tokens, 0) as imbalance_prefill
from sums
join balance on balance.pool = sums.pool
order by sums.pool, sums.draw
