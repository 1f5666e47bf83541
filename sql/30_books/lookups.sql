-- Question: what did each lookup ask, hit and miss, and what would it have hit under looser limits?
-- Row: one lookup (basis simulated), or one request with usage and no keys (basis observed).
-- Inputs: lookup_facts, unmeasured, requests, replicas, book, ladder, conversations.
-- Columns: request_row, lookup, request_id, source, source_file, source_line, started_at, admitted_at, pool,
--   replica, basis, prompt_tokens, output_tokens, hit_tokens, hit_host_tokens, recompute_tokens,
--   miss_uncacheable_tokens, miss_in_flight_tokens, miss_invalidated_tokens, miss_expired_tokens, miss_evicted_tokens,
--   miss_misrouted_tokens, miss_key_changed_tokens, miss_cold_tokens, miss_unexplained_tokens,
--   written_tokens, ideal_hit_tokens, pooled_hit_tokens, per_replica_hit_tokens, resets_hit_tokens,
--   ttl_hit_tokens, capacity_hit_tokens, usage_state, observed_hit_tokens, unexplained_tokens,
--   unpredicted_hit_tokens, queued_at, finished_at, route_branch, conversation,
--   storage_token_s
with simulated as (
    select
        lookup_facts.request_row,
        lookup_facts.lookup,
        lookup_facts.admitted_at,
        lookup_facts.pool,
        lookup_facts.queued_at,
        lookup_facts.finished_at,
        lookup_facts.route_branch,
        replicas.name as replica,
        'simulated' as basis,
        lookup_facts.hit_host_blocks * lookup_facts.block_size as hit_host_tokens,
        lookup_facts.recompute_tokens,
        lookup_facts.storage_token_s,
        ladder.ideal_blocks * lookup_facts.block_size as ideal_hit_tokens,
        -- A refused prompt is left out of every rung, not out of the ideal rate.
        if(lookup_facts.refused, null, ladder.pooled * lookup_facts.block_size) as pooled_hit_tokens,
        if(lookup_facts.refused, null, ladder.per_replica * lookup_facts.block_size) as per_replica_hit_tokens,
        if(lookup_facts.refused, null, ladder.resets * lookup_facts.block_size) as resets_hit_tokens,
        if(lookup_facts.refused, null, ladder.ttl * lookup_facts.block_size) as ttl_hit_tokens,
        if(lookup_facts.refused, null, ladder.capacity * lookup_facts.block_size) as capacity_hit_tokens
    from lookup_facts
    join replicas on replicas.replica = lookup_facts.replica
    left join ladder on ladder.lookup = lookup_facts.lookup
),
observed as (
    select
        requests.request_row,
        coalesce(requests.admitted_at, requests.started_at) as admitted_at,
        requests.pool,
        requests.replica_name as replica,
        'observed' as basis
    from unmeasured
    join requests using (request_row)
    where unmeasured.reason = 'usage'
),
asked as (
    select * from simulated
    union all by name
    select * from observed
)
select
    asked.request_row,
    asked.lookup,
    requests.request_id,
    requests.source,
    requests.source_file,
    requests.source_line,
    requests.started_at,
    asked.admitted_at,
    asked.pool,
    asked.replica,
    asked.basis,
    requests.prompt_tokens,
    requests.output_tokens,
    -- A prompt of 0 tokens has no segment.
    coalesce(book.hit_tokens, 0) as hit_tokens,
    coalesce(asked.hit_host_tokens, 0)::bigint as hit_host_tokens,
    coalesce(asked.recompute_tokens, 0)::bigint as recompute_tokens,
    coalesce(book.miss_uncacheable_tokens, 0) as miss_uncacheable_tokens,
    coalesce(book.miss_in_flight_tokens, 0) as miss_in_flight_tokens,
    coalesce(book.miss_invalidated_tokens, 0) as miss_invalidated_tokens,
    coalesce(book.miss_expired_tokens, 0) as miss_expired_tokens,
    coalesce(book.miss_evicted_tokens, 0) as miss_evicted_tokens,
    coalesce(book.miss_misrouted_tokens, 0) as miss_misrouted_tokens,
    coalesce(book.miss_key_changed_tokens, 0) as miss_key_changed_tokens,
    coalesce(book.miss_cold_tokens, 0) as miss_cold_tokens,
    coalesce(book.miss_unexplained_tokens, 0) as miss_unexplained_tokens,
    coalesce(book.written_tokens, 0) as written_tokens,
    asked.ideal_hit_tokens,
    asked.pooled_hit_tokens,
    asked.per_replica_hit_tokens,
    asked.resets_hit_tokens,
    asked.ttl_hit_tokens,
    asked.capacity_hit_tokens,
    requests.usage_state,
    requests.cached_tokens_observed as observed_hit_tokens,
    -- greatest() skips null, so a row without usage must not reach it: not known is not 0.
    case
        when asked.basis = 'simulated' and requests.usage_state = 'present'
            then greatest(0, coalesce(book.hit_tokens, 0) - requests.cached_tokens_observed)
    end as unexplained_tokens,
    case
        when asked.basis = 'simulated' and requests.usage_state = 'present'
            then greatest(0, requests.cached_tokens_observed - coalesce(book.hit_tokens, 0))
    end as unpredicted_hit_tokens,
    asked.queued_at,
    asked.finished_at,
    asked.route_branch,
    conversations.conversation,
    coalesce(asked.storage_token_s, 0)::bigint as storage_token_s
from asked
join requests using (request_row)
left join book using (request_row)
left join conversations using (request_row)
order by asked.admitted_at, asked.lookup nulls last, asked.request_row
