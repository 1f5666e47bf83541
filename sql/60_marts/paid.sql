-- Question: what does each lookup of the window cost, with the cache and without?
-- Row: one lookup. A row with keys pays for what the replay reads and writes, one without for what the service says
--   it read and wrote; input_cost, with the rent of what it created, and output_cost are the bill,
--   uncached_input_cost what the same input would cost if nothing were cached.
-- Inputs: asked, pieces, cards.
-- Columns: request_row, currency, prompt_tokens, output_tokens, read_tokens, written_tokens, uncached_tokens,
--   uncached_input_cost, input_cost, output_cost
with sums as (
    select
        request_row,
        any_value(card) as card,
        sum(if(hit, tokens, 0))::bigint as read_tokens,
        sum(if(hit, 0, written_tokens))::bigint as written_tokens,
        sum(if(hit, 0, written_1h_tokens))::bigint as written_1h_tokens,
        sum(tokens)::bigint as prompt_tokens
    from pieces
    group by request_row
)
select
    asked.request_row,
    cards.currency,
    asked.prompt_tokens,
    coalesce(asked.output_tokens, 0) as output_tokens,
    coalesce(sums.read_tokens, 0) as read_tokens,
    coalesce(sums.written_tokens, 0) as written_tokens,
    coalesce(sums.prompt_tokens - sums.read_tokens - sums.written_tokens, 0) as uncached_tokens,
    asked.prompt_tokens::decimal(16, 0) * cards.base_price as uncached_input_cost,
    coalesce(sums.read_tokens, 0)::decimal(16, 0) * cards.read_price
        + coalesce(sums.written_tokens - sums.written_1h_tokens, 0)::decimal(16, 0) * cards.write_price
        + coalesce(sums.written_1h_tokens, 0)::decimal(16, 0) * cards.write_1h_price
        + coalesce(
            sums.prompt_tokens - sums.read_tokens - sums.written_tokens, 0
        )::decimal(16, 0) * cards.base_price
        + coalesce(asked.storage_token_s, 0)::decimal(16, 0) * coalesce(cards.storage_price, 0) as input_cost,
    coalesce(asked.output_tokens, 0)::decimal(16, 0) * cards.output_price as output_cost
from asked
left join sums using (request_row)
join cards on cards.card = asked.card
