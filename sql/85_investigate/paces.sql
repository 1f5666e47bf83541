-- Question: who comes back after how long, and how much of that has expired by then?
-- Row: one value of one field; median_gap_s is the time between two turns of a conversation.
-- Inputs: asked.
-- Columns: field, value, requests, pairs, median_gap_s, prompt_tokens, hit_tokens, miss_expired_tokens
with turns as (
    select
        *,
        (
            epoch_us(started_at)
            - epoch_us(lag(started_at) over (partition by conversation order by started_at, request_row))
        ) / 1e6 as gap_s
    from asked
),
labelled as (
    select turns.*, unnest(map_entries(labels)) as label
    from turns
),
valued as (
    select
        gap_s,
        unnest([
            {'field': 'client', 'value': client},
            {'field': 'service_tier', 'value': service_tier},
            {'field': 'tenant', 'value': tenant}
        ], recursive := true),
        if(conversation is null, null, gap_s) as talk_gap_s,
        columns('^(prompt|hit|miss_expired)_tokens$')
    from turns
    union all by name
    select
        gap_s,
        'labels.' || label.key as field,
        label.value as value,
        if(conversation is null, null, gap_s) as talk_gap_s,
        columns('^(prompt|hit|miss_expired)_tokens$')
    from labelled
)
select
    field,
    value,
    count(*) as requests,
    count(talk_gap_s) as pairs,
    median(talk_gap_s) as median_gap_s,
    sum(prompt_tokens)::bigint as prompt_tokens,
    sum(hit_tokens)::bigint as hit_tokens,
    sum(miss_expired_tokens)::bigint as miss_expired_tokens
from valued
where value is not null
group by field, value
order by field, miss_expired_tokens desc, value
