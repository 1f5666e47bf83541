-- Question: which lookups lie in the window, and what does the log say of their requests?
-- Row: one lookup that arrived in the window; a window is a filter on arrivals.
-- Inputs: lookups, requests.
-- Parameters: from_us (first microsecond), to_us (first microsecond behind it), slot_us (time for which prices hold).
-- Columns: request_row, lookup, request_id, started_at, admitted_at, pool, replica, basis,
--   prompt_tokens, output_tokens, hit_tokens, hit_host_tokens, recompute_tokens, miss_uncacheable_tokens,
--   miss_in_flight_tokens,
--   miss_invalidated_tokens, miss_expired_tokens, miss_evicted_tokens, miss_misrouted_tokens,
--   miss_key_changed_tokens, miss_cold_tokens, miss_unexplained_tokens, written_tokens, ideal_hit_tokens,
--   pooled_hit_tokens, per_replica_hit_tokens, resets_hit_tokens, ttl_hit_tokens, capacity_hit_tokens,
--   usage_state, observed_hit_tokens, unexplained_tokens, unpredicted_hit_tokens, queued_at, finished_at,
--   route_branch, conversation, storage_token_s, block_size, provider,
--   model, release, client, tenant, adapter, service_tier, inference_geo, labels, slot, observed_write_5m_tokens,
--   observed_write_1h_tokens, observed_write_other_tokens
select
    lookups.* exclude (source, source_file, source_line),
    requests.block_size,
    requests.provider,
    requests.model,
    requests.release,
    requests.client,
    requests.tenant,
    requests.adapter,
    requests.service_tier,
    requests.inference_geo,
    requests.labels,
    epoch_us(lookups.started_at) // $slot_us as slot,
    requests.cache_write_5m_tokens_observed as observed_write_5m_tokens,
    requests.cache_write_1h_tokens_observed as observed_write_1h_tokens,
    requests.cache_write_other_tokens_observed as observed_write_other_tokens
from lookups
join requests using (request_row)
where epoch_us(lookups.started_at) >= $from_us and epoch_us(lookups.started_at) < $to_us
