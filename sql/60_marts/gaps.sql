-- Question: what is read, and what is written again, after how long a gap?
-- Row: one model and range of gaps, start to start, between two lookups of one conversation; a gap lies above from_s
--   and at most at to_s, which is null without an end: the ends are lifetimes that caches have, so that a lifetime is a
--   step. observed_… are over the lookups that carry usage.
-- Inputs: asked.
-- Columns: model, from_s, to_s, requests, prompt_tokens, hit_tokens, requests_with_usage, observed_hit_tokens,
--   observed_written_tokens
with spaced as (
    select
        *,
        epoch_us(started_at) - lag(epoch_us(started_at)) over (
            partition by conversation order by started_at, request_row
        ) as gap_us
    from asked
    where conversation is not null
),
-- The first range has no begin: two lookups may start at once.
ranges (from_s, to_s) as (
    values
        (0, 60), (60, 240), (240, 300), (300, 360), (360, 900), (900, 1800), (1800, 3600), (3600, 4500),
        (4500, 43200), (43200, 86400), (86400, null)
)
select
    spaced.model,
    ranges.from_s,
    ranges.to_s,
    count(*) as requests,
    sum(spaced.prompt_tokens)::bigint as prompt_tokens,
    sum(spaced.hit_tokens)::bigint as hit_tokens,
    count(*) filter (spaced.usage_state = 'present') as requests_with_usage,
    coalesce(sum(spaced.observed_hit_tokens) filter (spaced.usage_state = 'present'), 0)::bigint as observed_hit_tokens,
    coalesce(
        sum(
            coalesce(spaced.observed_write_5m_tokens, 0) + coalesce(spaced.observed_write_1h_tokens, 0)
            + coalesce(spaced.observed_write_other_tokens, 0)
        ) filter (spaced.usage_state = 'present'), 0
    )::bigint as observed_written_tokens
from spaced
join ranges
    on (ranges.from_s = 0 or spaced.gap_us > ranges.from_s * 1000000::bigint)
    and (ranges.to_s is null or spaced.gap_us <= ranges.to_s * 1000000::bigint)
group by spaced.model, ranges.from_s, ranges.to_s
order by spaced.model nulls last, ranges.from_s
