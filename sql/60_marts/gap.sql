-- Question: how far are the hits of the replay from those that the service reports, over the lookups that have both?
-- Row: one, always; the sums are null where no lookup has both. A window is a filter on arrivals.
-- Inputs: lookups.
-- Parameters: from_us (first microsecond), to_us (first microsecond behind it).
-- Columns: requests, prompt_tokens, simulated_hit_tokens, reported_hit_tokens, unexplained_tokens,
--   unpredicted_hit_tokens, ideal_hit_tokens, replicas_apart_tokens (what each replica hits more or less in all, signs
--   left out: replicas that err in opposite directions do not make up for each other)
with by_replica as (
    select
        count(*) as requests,
        sum(prompt_tokens) as prompt_tokens,
        sum(hit_tokens) as simulated_hit_tokens,
        sum(observed_hit_tokens) as reported_hit_tokens,
        sum(unexplained_tokens) as unexplained_tokens,
        sum(unpredicted_hit_tokens) as unpredicted_hit_tokens,
        sum(ideal_hit_tokens) as ideal_hit_tokens
    from lookups
    where basis = 'simulated'
        and usage_state = 'present'
        and epoch_us(started_at) >= $from_us
        and epoch_us(started_at) < $to_us
    group by pool, replica
)
select
    coalesce(sum(requests), 0)::bigint as requests,
    sum(prompt_tokens)::bigint as prompt_tokens,
    sum(simulated_hit_tokens)::bigint as simulated_hit_tokens,
    sum(reported_hit_tokens)::bigint as reported_hit_tokens,
    sum(unexplained_tokens)::bigint as unexplained_tokens,
    sum(unpredicted_hit_tokens)::bigint as unpredicted_hit_tokens,
    sum(ideal_hit_tokens)::bigint as ideal_hit_tokens,
    sum(abs(simulated_hit_tokens - reported_hit_tokens))::bigint as replicas_apart_tokens
from by_replica
