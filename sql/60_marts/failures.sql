-- Question: which prompts failed again and again?
-- Row: one prompt of one model and tenant that failed at least 3 times in the window: the same text, else the same full
--   blocks and length. answered is how often the same prompt did not fail; prompt_tokens is 0 where nobody counted a
--   call that failed. Prompts without keys cannot be told to be the same.
-- Inputs: requests.
-- Parameters: from_us, to_us.
-- Columns: model, tenant, prompt_tokens, requests, answered, first_at, last_at
with told as (
    select
        model,
        tenant,
        source,
        content_node,
        -- Of a prompt without text its last block and length.
        if(content_node is null, source_node, null) as last_node,
        if(content_node is null, prompt_tokens, null) as told_tokens,
        prompt_tokens,
        started_at,
        status = 'failed' as failed
    from requests
    where (source_node is not null or content_node is not null)
        and epoch_us(started_at) >= $from_us
        and epoch_us(started_at) < $to_us
)
select
    model,
    tenant,
    max(prompt_tokens) as prompt_tokens,
    count(*) filter (failed) as requests,
    count(*) filter (not failed) as answered,
    min(started_at) filter (failed) as first_at,
    max(started_at) filter (failed) as last_at
from told
group by model, tenant, source, content_node, last_node, told_tokens
having count(*) filter (failed) >= 3
order by requests desc, first_at, model nulls last, tenant nulls last
