-- Question: to which length do the reads of conversations fall back again and again, while their prompts grow?
-- Row: one length that at least 3 reads fell to, within 1 % of each other; the most lost tokens first. A fall is a
--   turn that reads a tenth less than the turn before did, though it is no shorter and nothing is proven to have
--   expired. lost_tokens is what the turns before had read above it.
-- Inputs: asked.
-- Columns: floor_tokens, falls, conversations, lost_tokens
with turns as (
    select
        conversation,
        miss_expired_tokens,
        prompt_tokens,
        observed_hit_tokens as read_tokens,
        lag(prompt_tokens) over talk as prompt_before,
        lag(observed_hit_tokens) over talk as read_before
    from asked
    where conversation is not null and usage_state = 'present'
    window talk as (partition by conversation order by started_at, request_row)
),
falls as (
    select
        conversation,
        read_tokens,
        read_before - read_tokens as lost_tokens,
        read_tokens > 1.01 * lag(read_tokens, 1, 0) over (order by read_tokens) as apart
    from turns
    where read_tokens > 0
        and 10 * read_tokens < 9 * read_before
        and prompt_tokens >= prompt_before
        and miss_expired_tokens = 0
),
grouped as (
    select *, sum(apart::int) over (order by read_tokens rows unbounded preceding) as floor
    from falls
)
select
    quantile_disc(read_tokens, 0.5) as floor_tokens,
    count(*) as falls,
    count(distinct conversation) as conversations,
    sum(lost_tokens)::bigint as lost_tokens
from grouped
group by floor
having count(*) >= 3
order by lost_tokens desc, floor_tokens
