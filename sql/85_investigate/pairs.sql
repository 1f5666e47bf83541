-- Question: after gaps of the same length, how much of the prompt before hits, with and without a change of process?
-- Row: one field that may have changed between two turns of a conversation, one class of gaps, and whether it changed.
--   gap_class is the shortest gap of its class in seconds. A share is what the service reports where it reports.
-- Inputs: asked, sessions.
-- Columns: field, gap_class, changed, pairs, mean_share, share_variance
with told as (
    select
        asked.*,
        sessions.session_id,
        max(started_at) over (partition by conversation) as ends_at,
        row_number() over (partition by conversation order by started_at, request_row) = 1 as opens,
        {
            'at': started_at, 'tokens': prompt_tokens, 'release': release, 'client': client, 'model': model,
            'replica': replica
        } as turn
    from asked
    left join sessions using (request_row)
    where conversation is not null
),
-- A session whose prompts begin otherwise from one turn on, as those of a program that was started anew may, is two
-- conversations by its keys. It goes on where all before has ended and the prompt is at least half of the last.
turns as (
    select
        told.*,
        if(
            opens and session_id is not null
            and max(ends_at) over (sitting rows between unbounded preceding and 1 preceding) < started_at
            and 2 * prompt_tokens >= lag(prompt_tokens) over (sitting),
            lag(turn) over (sitting),
            lag(turn) over (partition by conversation order by started_at, request_row)
        ) as before
    from told
    window sitting as (partition by session_id, tenant order by started_at, request_row)
),
gaps as (
    select
        epoch_us(started_at) - epoch_us(before.at) as gap_us,
        -- Whole billionths: a sum of fractions ends in other digits when threads add it up in another order.
        round(1e9 * least(1, coalesce(observed_hit_tokens, hit_tokens) / before.tokens))::bigint as share_e9,
        unnest([
            {'field': 'release', 'changed': release != before.release},
            {'field': 'client', 'changed': client != before.client},
            {'field': 'model', 'changed': model != before.model},
            {'field': 'replica', 'changed': replica != before.replica}
        ], recursive := true)
    from turns
    where before.tokens > 0
)
select
    field,
    case
        when gap_us < 60000000 then 0
        when gap_us < 300000000 then 60
        when gap_us < 900000000 then 300
        when gap_us < 3600000000 then 900
        when gap_us < 14400000000 then 3600
        else 14400
    end as gap_class,
    changed,
    count(*) as pairs,
    sum(share_e9) / count(*) / 1e9 as mean_share,
    coalesce(
        (count(*) * sum(share_e9 * share_e9) - sum(share_e9) * sum(share_e9))
        / nullif(count(*) * (count(*) - 1), 0) / 1e18,
        0
    ) as share_variance
from gaps
where changed is not null
group by field, gap_class, changed
order by field, gap_class, changed
