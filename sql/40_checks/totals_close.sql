-- Question: do the missed segments, the lookups and the logged prompts give the same totals?
-- Row: one total that differs; none is right.
-- Inputs: segments, lookups, requests, unmeasured.
-- Columns: total, tokens, expected_tokens
with totals as (
    select
        'missed' as total,
        (select coalesce(sum(tokens), 0) from segments where not hit) as tokens,
        (select coalesce(sum(prompt_tokens - hit_tokens), 0) from lookups) as expected_tokens
    union all
    select
        'hit',
        (select coalesce(sum(tokens), 0) from segments where hit),
        (select coalesce(sum(hit_tokens), 0) from lookups)
    union all
    select
        'prompt',
        (select coalesce(sum(tokens), 0) from segments),
        (
            select coalesce(sum(requests.prompt_tokens), 0)
            from requests
            left join unmeasured using (request_row)
            where coalesce(unmeasured.reason, 'usage') = 'usage'
        )
)
select total, tokens::bigint as tokens, expected_tokens::bigint as expected_tokens
from totals
where tokens <> expected_tokens
order by total
