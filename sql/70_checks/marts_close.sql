-- Question: does every way to cut the window sum to the same prompts, hits and misses?
-- Row: one cut and one kind of token whose sum differs from the totals; none is right.
-- Inputs: totals, timeline, by_replica, prefixes, causes, details.
-- Columns: cut, kind, tokens, expected_tokens
with cuts as (
    select 'totals' as cut, columns('^(prompt|hit|miss_.+)_tokens$') from totals where basis = 'all'
    union all by name
    select 'basis' as cut, sum(columns('^(prompt|hit|miss_.+)_tokens$')) as '\0' from totals where basis <> 'all'
    union all by name
    select 'timeline' as cut, sum(columns('^(prompt|hit|miss_.+)_tokens$')) as '\0' from timeline
    union all by name
    select 'by_replica' as cut, sum(columns('^(prompt|hit|miss_.+)_tokens$')) as '\0' from by_replica
    union all by name
    select 'prefixes' as cut, sum(columns('^(prompt|hit|miss_.+)_tokens$')) as '\0' from prefixes
),
kinds as (
    unpivot (select cut, coalesce(columns('^(prompt|hit|miss_.+)_tokens$'), 0) as '\0' from cuts)
    on columns('^(prompt|hit|miss_.+)_tokens$')
    into name kind value tokens
),
causes_cut as (
    select 'causes' as cut, 'miss_' || cause || '_tokens' as kind, tokens from causes
    union all
    select 'details', 'miss_' || cause || '_tokens', sum(tokens) from details group by cause
),
compared as (
    select cut, kind, tokens from kinds
    union all
    select cut, kind, tokens from causes_cut
)
select
    compared.cut,
    compared.kind,
    compared.tokens::bigint as tokens,
    expected.tokens::bigint as expected_tokens
from compared
join kinds as expected on expected.cut = 'totals' and expected.kind = compared.kind
where compared.tokens <> expected.tokens
order by compared.cut, compared.kind
