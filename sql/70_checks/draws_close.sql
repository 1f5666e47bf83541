-- Question: is draw 0 the replay itself, and does every draw answer the same lookups with no more than they asked?
-- Row: one lookup of one draw that is wrong; none is right.
-- Inputs: draws, asked.
-- Columns: draw, lookup, problem
with answered as (
    select draws.draw, draws.lookup, draws.hit_tokens, asked.hit_tokens as replayed_tokens, asked.prompt_tokens
    from draws
    join asked on asked.lookup = draws.lookup
),
times as (
    select lookup, count(*) as n
    from draws
    group by lookup
),
most as (
    select max(draw) + 1 as n
    from draws
)
select draw, lookup, 'draw 0 hits otherwise than the replay' as problem
from answered
where draw = 0 and hit_tokens <> replayed_tokens
union all
select draw, lookup, 'more hits than prompt, or fewer than none' as problem
from answered
where hit_tokens < 0 or hit_tokens > prompt_tokens
union all
select null, times.lookup, 'not every draw has it once' as problem
from times
cross join most
where times.n <> most.n
order by lookup, draw
