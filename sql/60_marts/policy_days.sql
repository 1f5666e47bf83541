-- Question: does the replay read and write what the service billed, model by model and day by day?
-- Row: one model and day (in the zone of the window) with lookups that have keys and usage. Writes are over the lookups
--   whose service counts them: write columns are null where none does. Errors are sums of differences request by
--   request, so that too much here does not hide too little there.
-- Inputs: asked, days.
-- Columns: model, day, requests, prompt_tokens, billed_read_tokens, simulated_read_tokens, read_error_tokens,
--   write_prompt_tokens, billed_write_tokens, simulated_write_tokens, write_error_tokens
with both_known as (
    select
        model,
        started_at,
        prompt_tokens,
        observed_hit_tokens,
        hit_tokens,
        written_tokens,
        coalesce(
            observed_write_5m_tokens, observed_write_1h_tokens, observed_write_other_tokens
        ) is not null as counts_writes,
        coalesce(observed_write_5m_tokens, 0) + coalesce(observed_write_1h_tokens, 0)
        + coalesce(observed_write_other_tokens, 0) as observed_write_tokens
    from asked
    where usage_state = 'present' and basis = 'simulated'
)
select
    both_known.model,
    days.day,
    count(*) as requests,
    sum(prompt_tokens)::bigint as prompt_tokens,
    sum(observed_hit_tokens)::bigint as billed_read_tokens,
    sum(hit_tokens)::bigint as simulated_read_tokens,
    sum(abs(hit_tokens - observed_hit_tokens))::bigint as read_error_tokens,
    sum(prompt_tokens) filter (counts_writes)::bigint as write_prompt_tokens,
    sum(observed_write_tokens) filter (counts_writes)::bigint as billed_write_tokens,
    sum(written_tokens) filter (counts_writes)::bigint as simulated_write_tokens,
    sum(abs(written_tokens - observed_write_tokens)) filter (counts_writes)::bigint as write_error_tokens
from both_known
asof join days on epoch_us(both_known.started_at) >= days.from_us
group by both_known.model, days.day
order by days.day, both_known.model nulls last
