-- Question: after gaps of the same length, how much of the prompt before hits, with and without a change of process?
-- Row: one field that may have changed between two turns of a conversation, one class of gaps, and whether it changed.
--   gap_class is the shortest gap of its class in seconds. A share is what the service reports where it reports.
-- Inputs: asked.
-- Columns: field, gap_class, changed, pairs, mean_share, share_variance
with turns as (
    select
        *,
        lag(started_at) over talk as started_before,
        lag(prompt_tokens) over talk as tokens_before,
        lag(release) over talk as release_before,
        lag(client) over talk as client_before,
        lag(model) over talk as model_before,
        lag(replica) over talk as replica_before
    from asked
    where conversation is not null
    window talk as (partition by conversation order by started_at, request_row)
),
gaps as (
    select
        epoch_us(started_at) - epoch_us(started_before) as gap_us,
        -- Whole billionths: a sum of fractions ends in other digits when threads add it up in another order.
        round(1e9 * least(1, coalesce(observed_hit_tokens, hit_tokens) / tokens_before))::bigint as share_e9,
        unnest([
            {'field': 'release', 'changed': release != release_before},
            {'field': 'client', 'changed': client != client_before},
            {'field': 'model', 'changed': model != model_before},
            {'field': 'replica', 'changed': replica != replica_before}
        ], recursive := true)
    from turns
    where started_before is not null and tokens_before > 0
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
