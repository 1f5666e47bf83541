-- Question: how many missed tokens were written, and how many not, at each price and for each cause?
-- Row: one rate card and cause.
-- Inputs: pieces.
-- Columns: card, cause, written_tokens, written_1h_tokens, uncached_tokens
select
    card,
    cause,
    sum(written_tokens - written_1h_tokens)::bigint as written_tokens,
    sum(written_1h_tokens)::bigint as written_1h_tokens,
    sum(tokens - written_tokens)::bigint as uncached_tokens
from pieces
where not hit
group by card, cause
order by card nulls last, cause
