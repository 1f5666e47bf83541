-- Question: what kind of change made the keys of a prompt new, and what is it that varies there?
-- Row: one change of one prompt. varies is null where one look tells nothing: it takes what stands at the same
--   place in three prompts or more, and it must vary as its looks say: a time of day goes with the clock of the
--   requests, a date with their day, a counter goes up in small steps, an id is new each time.
-- Inputs: changes, lookup_facts, requests.
-- Columns: change, lookup, layer, previous, detail, part, at_token, new_tokens, old_tokens, varies
with timed as (
    select
        changes.*,
        epoch_us(asking.started_at) as asked_us,
        epoch_us(serving.started_at) as served_us
    from changes
    join lookup_facts as new_lookup on new_lookup.lookup = changes.lookup
    join lookup_facts as old_lookup on old_lookup.lookup = changes.previous
    join requests as asking on asking.request_row = new_lookup.request_row
    join requests as serving on serving.request_row = old_lookup.request_row
),
looked as (
    select
        *,
        case mark
            -- Off by less than two minutes, whatever the zone: stamps may leave the seconds out.
            when 'time' then abs(
                (mark_value - old_mark_value - (asked_us - served_us) // 1000000 + 43200 + 3153600000) % 86400 - 43200
            ) <= 120
            -- The day of the request, whatever the zone; of a clock that begins anywhere, as many days later as it is.
            when 'date' then abs(mark_value - asked_us // 86400000000) <= 1
                or abs((mark_value - old_mark_value) * 86400 - (asked_us - served_us) / 1e6) < 86400
            -- Of a number 16 bits are known.
            when 'number' then (mark_value - old_mark_value + 65536) % 65536 between 1 and 1000
        end as as_expected
    from timed
),
shown as (
    select slot, mark, mark_value as value, asked_us as at_us from timed where mark_value is not null
    union all
    select slot, mark, old_mark_value, served_us from timed where old_mark_value is not null
),
first_shown as (
    select slot, mark, value, min(at_us) as since_us from shown where mark is not null group by slot, mark, value
),
steps as (
    select
        slot,
        mark,
        value - lag(value) over moments as step,
        (since_us - lag(since_us) over moments) / 1e6 as gap_s,
        row_number() over moments as place
    from first_shown
    window moments as (partition by slot, mark order by since_us, value)
),
-- A value that stays for a while, as the start of a session does, goes with when it was first shown; since when the
-- first of them was is not known.
paced as (
    select
        slot,
        mark,
        count(*) >= 2 and avg((case mark
            when 'time' then abs((step - gap_s::bigint + 43200 + 3153600000) % 86400 - 43200) <= 120
            when 'date' then abs(step * 86400 - gap_s) < 86400
            when 'number' then (step + 65536) % 65536 between 1 and 1000
        end)::int) >= 0.8 as goes_on
    from steps
    where place >= 3
    group by slot, mark
),
slots as (
    select
        looked.slot,
        looked.mark,
        len(list_distinct(flatten(list([mark_value, old_mark_value])))) as n_values,
        coalesce(avg(as_expected::int), 0) >= 0.8 or coalesce(any_value(paced.goes_on), false) as goes_on
    from looked
    left join paced on paced.slot = looked.slot and paced.mark = looked.mark
    where looked.mark is not null
    group by looked.slot, looked.mark
)
select
    looked.change,
    looked.lookup,
    looked.layer,
    looked.previous,
    case
        when looked.differs = 'model' then 'model_changed'
        when looked.differs = 'template' then 'template_changed'
        when looked.differs is not null then 'namespace_split'
        when looked.tools_reordered or (looked.moved and looked.part = 'tools') then 'tools_reordered'
        -- Most of the conversation gave way to something shorter: on purpose, and with a detail of its own.
        when looked.in_history and looked.new_tokens > 0 and looked.old_tokens >= greatest(256, 4 * looked.new_tokens)
            and 2 * looked.old_tokens >= looked.old_prompt_tokens - looked.at_token then 'compaction'
        when looked.in_history then 'history_rewritten'
        else 'prefix_edited'
    end as detail,
    looked.part,
    looked.at_token,
    looked.new_tokens,
    looked.old_tokens,
    case
        when looked.differs is not null then null
        when looked.tools_reordered or looked.moved then 'reordering'
        -- Of a text that came or went as a whole that is all there is to say.
        when slots.n_values < 3 and (looked.mark_value is null or looked.old_mark_value is null) then 'free text'
        when slots.n_values < 3 then null
        when looked.mark = 'time' then if(slots.goes_on, 'time of day', 'number')
        when looked.mark = 'date' then if(slots.goes_on, 'date', 'number')
        when looked.mark = 'number' then if(slots.goes_on, 'counter', 'number')
        when looked.mark is not null then looked.mark
        when looked.part is not null then 'free text'
    end as varies
from looked
left join slots on slots.slot = looked.slot and slots.mark = looked.mark
order by looked.change
