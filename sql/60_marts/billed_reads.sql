-- Question: how many tokens were read from cache and generated at each price?
-- Row: one rate card.
-- Inputs: asked.
-- Columns: card, read_tokens, output_tokens
select
    card,
    sum(hit_tokens)::bigint as read_tokens,
    coalesce(sum(output_tokens), 0)::bigint as output_tokens
from asked
group by card
order by card nulls last
