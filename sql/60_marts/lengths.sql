-- Question: does the service read from cache at every length of prompt?
-- Row: one model and range of prompt lengths with requests that carry usage; to_tokens is null without an end.
--   ideal_hit_tokens and ideal_prompt_tokens are over those that have keys too: what an unlimited cache would give.
-- Inputs: asked.
-- Columns: model, from_tokens, to_tokens, requests, requests_with_read, prompt_tokens, observed_hit_tokens,
--   ideal_prompt_tokens, ideal_hit_tokens
with ranges (from_tokens, to_tokens) as (
    values
        (0, 1024), (1024, 2048), (2048, 4096), (4096, 6144), (6144, 8192), (8192, 12288), (12288, 16384),
        (16384, 24576), (24576, 32768), (32768, 65536), (65536, 131072), (131072, 262144), (262144, null)
)
select
    asked.model,
    ranges.from_tokens,
    ranges.to_tokens,
    count(*) as requests,
    count(*) filter (asked.observed_hit_tokens > 0) as requests_with_read,
    sum(asked.prompt_tokens)::bigint as prompt_tokens,
    sum(asked.observed_hit_tokens)::bigint as observed_hit_tokens,
    coalesce(
        sum(asked.prompt_tokens) filter (asked.ideal_hit_tokens is not null), 0
    )::bigint as ideal_prompt_tokens,
    sum(asked.ideal_hit_tokens)::bigint as ideal_hit_tokens
from asked
join ranges
    on asked.prompt_tokens >= ranges.from_tokens
    and (ranges.to_tokens is null or asked.prompt_tokens < ranges.to_tokens)
where asked.usage_state = 'present'
group by asked.model, ranges.from_tokens, ranges.to_tokens
order by asked.model nulls last, ranges.from_tokens
