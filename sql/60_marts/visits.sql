-- Question: what did each request pay on each shared node of its path?
-- Row: one request and one shared node, or what no shared node owns of it (node null). excess_cost is what misses
--   cost above the price of a read, uncached_cost what all tokens would cost without a cache.
-- Inputs: owned, cards.
-- Columns: request_row, node, level, replica, currency, prompt_tokens, hit_tokens, written_tokens, paid_cost,
--   uncached_cost, excess_cost
with sums as (
    select
        request_row,
        node,
        any_value(level) as level,
        any_value(replica) as replica,
        any_value(card) as card,
        sum(tokens)::bigint as prompt_tokens,
        sum(if(hit, tokens, 0))::bigint as hit_tokens,
        sum(written_tokens)::bigint as written_tokens,
        sum(written_1h_tokens)::bigint as written_1h_tokens
    from owned
    group by request_row, node
),
costs as (
    select
        sums.*,
        cards.currency,
        sums.prompt_tokens::decimal(16, 0) * cards.base_price as uncached_cost,
        sums.hit_tokens::decimal(16, 0) * cards.read_price
            + sums.written_tokens::decimal(16, 0) * cards.write_price
            + sums.written_1h_tokens::decimal(16, 0) * cards.write_1h_price
            + (
                sums.prompt_tokens - sums.hit_tokens - sums.written_tokens - sums.written_1h_tokens
            )::decimal(16, 0) * cards.base_price as paid_cost,
        sums.prompt_tokens::decimal(16, 0) * cards.read_price as read_cost
    from sums
    join cards using (card)
)
select
    request_row,
    node,
    level,
    replica,
    currency,
    prompt_tokens,
    hit_tokens,
    written_tokens + written_1h_tokens as written_tokens,
    paid_cost,
    uncached_cost,
    paid_cost - read_cost as excess_cost
from costs
