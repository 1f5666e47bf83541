-- Question: who asked what when, which replica answered, and if none, why not?
-- Row: the one request; reason is null for a lookup, else failed (it never reached a cache), usage (it has
--   usage but no keys) or unmeasured (neither).
-- Inputs: requests, lookups.
-- Parameters: row (its request_row).
-- Columns: request_id, source_file, source_line, started_at, admitted_at, finished_at, tenant, model, release,
--   session_id, conversation, status, reason, pool, block_size, replica, route_branch, basis, prompt_tokens,
--   hit_tokens, hit_host_tokens, observed_hit_tokens
select
    requests.request_id,
    requests.source_file,
    requests.source_line,
    requests.started_at,
    lookups.admitted_at,
    lookups.finished_at,
    requests.tenant,
    requests.model,
    requests.release,
    requests.session_id,
    lookups.conversation,
    requests.status,
    case
        when lookups.basis = 'observed' then 'usage'
        when lookups.basis is not null then null
        when requests.status = 'failed' then 'failed'
        else 'unmeasured'
    end as reason,
    lookups.pool,
    requests.block_size,
    lookups.replica,
    lookups.route_branch,
    lookups.basis,
    requests.prompt_tokens,
    lookups.hit_tokens,
    lookups.hit_host_tokens,
    lookups.observed_hit_tokens
from requests
left join lookups using (request_row)
where requests.request_row = $row
