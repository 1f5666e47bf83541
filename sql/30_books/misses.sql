-- Question: which tokens were missed, why, and what proves it?
-- Row: one missed segment, in the order of the segments.
-- Inputs: segments.
-- Columns: request_id, source, source_line, admitted_at, pool, replica, first_block, n_blocks, tokens, cause,
--   detail, prefix_key, previous_request_id, last_used_at, removed_at, removed_by, elsewhere,
--   resident_replica, route_branch, needed_capacity_blocks, needed_ttl_s, event_id, changed_part, changed_at_token,
--   changed_new_tokens, changed_old_tokens, changed_layer, varies, hit_on_other_replica,
--   hit_with_more_capacity, hit_with_longer_ttl, hit_with_stable_prefix
select * exclude (request_row, lookup, first_token, written_tokens, written_1h_tokens, hit, previous_row)
from segments
where not hit
