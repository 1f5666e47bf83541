-- Question: which requests do replay and service disagree on, and how?
-- Row: one request and kind: read_less (the service read less than the replay), read_more, written_less, written_more;
--   the 50 largest of each kind. More than a block must differ: services that count single tokens end elsewhere.
--   kind_requests and kind_tokens are over all requests of the kind, also those that are not listed.
-- Inputs: asked.
-- Columns: kind, request_id, model, tenant, started_at, prompt_tokens, billed_tokens, simulated_tokens,
--   differing_tokens, kind_requests, kind_tokens
with counted as (
    select
        *,
        coalesce(
            observed_write_5m_tokens, observed_write_1h_tokens, observed_write_other_tokens
        ) is not null as counts_writes,
        coalesce(observed_write_5m_tokens, 0) + coalesce(observed_write_1h_tokens, 0)
        + coalesce(observed_write_other_tokens, 0) as observed_write_tokens
    from asked
    where usage_state = 'present' and basis = 'simulated'
),
sides as (
    select
        request_row,
        if(hit_tokens > observed_hit_tokens, 'read_less', 'read_more') as kind,
        observed_hit_tokens as billed_tokens,
        hit_tokens as simulated_tokens
    from counted
    where abs(hit_tokens - observed_hit_tokens) > block_size
    union all
    select
        request_row,
        if(written_tokens > observed_write_tokens, 'written_less', 'written_more') as kind,
        observed_write_tokens as billed_tokens,
        written_tokens as simulated_tokens
    from counted
    where counts_writes and abs(written_tokens - observed_write_tokens) > block_size
)
select
    sides.kind,
    counted.request_id,
    counted.model,
    counted.tenant,
    counted.started_at,
    counted.prompt_tokens,
    sides.billed_tokens,
    sides.simulated_tokens,
    abs(sides.billed_tokens - sides.simulated_tokens) as differing_tokens,
    count(*) over (partition by sides.kind) as kind_requests,
    sum(abs(sides.billed_tokens - sides.simulated_tokens)) over (partition by sides.kind)::bigint as kind_tokens
from sides
join counted using (request_row)
qualify row_number() over (partition by sides.kind order by differing_tokens desc, counted.request_row) <= 50
order by sides.kind, differing_tokens desc, counted.request_row
