-- Question: how many tokens did each cause take, by detail and by where it was judged?
-- Row: one cause:detail, with :here or :elsewhere for evicted, expired and invalidated. The detail of evicted and
--   expired is a number of its own for every segment, so it is no part of the key.
-- Inputs: pieces.
-- Columns: key, cause, detail, judged, tokens, segments
with keyed as (
    select
        cause,
        if(cause in ('evicted', 'expired'), null, detail) as detail,
        case when cause in ('evicted', 'expired', 'invalidated') then if(elsewhere, 'elsewhere', 'here') end as judged,
        tokens
    from pieces
    where not hit
)
select
    concat_ws(':', cause, detail, judged) as key,
    cause,
    detail,
    judged,
    sum(tokens)::bigint as tokens,
    count(*) as segments
from keyed
group by cause, detail, judged
order by tokens desc, key
