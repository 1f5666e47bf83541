-- Question: where and when do the hits that the service reports differ from those of the replay?
-- Row: one replica and hour (UTC, by arrival) with requests that carry usage. Columns that begin with both_ are over
--   the lookups that have keys too; both_block_tokens is one block for each of them: what a service that counts single
--   tokens may hit beyond whole blocks.
-- Inputs: asked.
-- Columns: pool, replica, hour_at, requests, prompt_tokens, observed_hit_tokens, both_requests, both_prompt_tokens,
--   both_observed_hit_tokens, both_simulated_hit_tokens, both_ideal_hit_tokens, both_block_tokens,
--   unexplained_tokens, unpredicted_hit_tokens
select
    pool,
    replica,
    date_trunc('hour', started_at) as hour_at,
    count(*) as requests,
    sum(prompt_tokens)::bigint as prompt_tokens,
    sum(observed_hit_tokens)::bigint as observed_hit_tokens,
    count(*) filter (basis = 'simulated') as both_requests,
    coalesce(sum(prompt_tokens) filter (basis = 'simulated'), 0)::bigint as both_prompt_tokens,
    coalesce(sum(observed_hit_tokens) filter (basis = 'simulated'), 0)::bigint as both_observed_hit_tokens,
    coalesce(sum(hit_tokens) filter (basis = 'simulated'), 0)::bigint as both_simulated_hit_tokens,
    coalesce(sum(ideal_hit_tokens) filter (basis = 'simulated'), 0)::bigint as both_ideal_hit_tokens,
    coalesce(sum(block_size) filter (basis = 'simulated'), 0)::bigint as both_block_tokens,
    coalesce(sum(unexplained_tokens), 0)::bigint as unexplained_tokens,
    coalesce(sum(unpredicted_hit_tokens), 0)::bigint as unpredicted_hit_tokens
from asked
where usage_state = 'present'
group by pool, replica, hour_at
order by hour_at, pool nulls last, replica
