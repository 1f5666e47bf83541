-- Question: how many tokens were read from cache, generated, and kept for rent at each price?
-- Row: one rate card.
-- Inputs: asked.
-- Columns: card, read_tokens, output_tokens, storage_token_s
select
    card,
    sum(hit_tokens)::bigint as read_tokens,
    coalesce(sum(output_tokens), 0)::bigint as output_tokens,
    coalesce(sum(storage_token_s), 0)::bigint as storage_token_s
from asked
group by card
order by card nulls last
