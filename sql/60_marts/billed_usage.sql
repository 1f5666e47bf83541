-- Question: which tokens does the service itself charge for at each price?
-- Row: one rate card with requests that carry usage; written_5m_tokens are those of the cheapest lifetime, also
--   where the service does not say which one it was or has other ones than 5 minutes (30 with OpenAI); open_tokens are
--   the part whose lifetime the log does not say.
-- Inputs: asked.
-- Columns: card, read_tokens, output_tokens, written_5m_tokens, written_1h_tokens, uncached_tokens,
--   open_tokens
with charged as (
    select
        card,
        prompt_tokens,
        coalesce(output_tokens, 0) as output_tokens,
        observed_hit_tokens,
        coalesce(observed_write_5m_tokens, 0) + coalesce(observed_write_other_tokens, 0) as written_5m_tokens,
        coalesce(observed_write_1h_tokens, 0) as written_1h_tokens,
        coalesce(observed_write_other_tokens, 0)
        + if(observed_write_1h_tokens is null, coalesce(observed_write_5m_tokens, 0), 0) as open_tokens
    from asked
    where usage_state = 'present'
)
select
    card,
    sum(observed_hit_tokens)::bigint as read_tokens,
    sum(output_tokens)::bigint as output_tokens,
    sum(written_5m_tokens)::bigint as written_5m_tokens,
    sum(written_1h_tokens)::bigint as written_1h_tokens,
    sum(prompt_tokens - observed_hit_tokens - written_5m_tokens - written_1h_tokens)::bigint as uncached_tokens,
    sum(open_tokens)::bigint as open_tokens
from charged
group by card
order by card nulls last
