-- Question: what does each lookup of the window pay for a token?
-- Row: one lookup of the window with the rate card of its pool, model, time and length.
-- Inputs: windowed, prices.
-- Columns: request_row, lookup, request_id, started_at, admitted_at, pool, replica, basis,
--   prompt_tokens, output_tokens, hit_tokens, hit_host_tokens, recompute_tokens, miss_uncacheable_tokens,
--   miss_in_flight_tokens,
--   miss_invalidated_tokens, miss_expired_tokens, miss_evicted_tokens, miss_misrouted_tokens,
--   miss_key_changed_tokens, miss_cold_tokens, miss_unexplained_tokens, written_tokens, ideal_hit_tokens,
--   pooled_hit_tokens, per_replica_hit_tokens, resets_hit_tokens, ttl_hit_tokens, capacity_hit_tokens,
--   usage_state, observed_hit_tokens, unexplained_tokens, unpredicted_hit_tokens, queued_at, finished_at,
--   route_branch, conversation, storage_token_s, block_size, provider,
--   model, release, client, tenant, adapter, service_tier, inference_geo, labels, slot, observed_write_5m_tokens,
--   observed_write_1h_tokens, observed_write_other_tokens, card
select windowed.*, prices.card
from windowed
left join prices
    on prices.pool is not distinct from windowed.pool
    and prices.provider is not distinct from windowed.provider
    and prices.model is not distinct from windowed.model
    and prices.service_tier is not distinct from windowed.service_tier
    and prices.inference_geo is not distinct from windowed.inference_geo
    and prices.slot = windowed.slot
    and prices.basis = windowed.basis
    and windowed.prompt_tokens > prices.above_tokens
    and windowed.prompt_tokens <= prices.upto_tokens
