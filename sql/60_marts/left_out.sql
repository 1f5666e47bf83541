-- Question: which requests of the window are no lookups?
-- Row: one reason: failed (never reached a cache) or unmeasured (neither keys nor usage).
-- Inputs: requests, lookups.
-- Parameters: from_us, to_us.
-- Columns: reason, requests, prompt_tokens, output_tokens
select
    if(requests.status = 'failed', 'failed', 'unmeasured') as reason,
    count(*) as requests,
    sum(requests.prompt_tokens)::bigint as prompt_tokens,
    coalesce(sum(requests.output_tokens), 0)::bigint as output_tokens
from requests
where epoch_us(requests.started_at) >= $from_us
    and epoch_us(requests.started_at) < $to_us
    and not exists (
        select 1
        from lookups
        where lookups.request_row = requests.request_row
    )
group by reason
order by reason
