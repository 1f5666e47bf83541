-- Question: which written tokens did nobody read by the end of the log?
-- Row: one lookup of the window that wrote, and one shared node that owns what it wrote; node is null for what no
--   shared node owns. The next use of what it wrote, on its replica, is a hit or it is none: each hit names the lookup
--   that used the same tokens last. wasted_cost is what writing the unread cost above uncached input.
-- Inputs: segments, asked, cards, lookup_shared.
-- Columns: request_row, node, currency, written_tokens, unread_tokens, wasted_cost
with writes as (
    select
        segments.request_row,
        segments.lookup,
        segments.first_token,
        segments.first_token + segments.written_1h_tokens as split_token,
        segments.first_token + segments.written_tokens as end_token,
        asked.block_size,
        asked.card
    from segments
    join asked using (request_row)
    where not segments.hit and segments.written_tokens > 0
),
-- What is written to live longer lies at the head of a piece.
priced as (
    select request_row, lookup, block_size, card, first_token as from_token, split_token as to_token, true as long
    from writes
    where split_token > first_token
    union all
    select request_row, lookup, block_size, card, split_token as from_token, end_token as to_token, false as long
    from writes
    where end_token > split_token
),
keyed as (
    select lookup, max(first_block + n_blocks) as end_block
    from lookup_shared
    group by lookup
),
cut as (
    select
        priced.request_row,
        priced.card,
        priced.long,
        lookup_shared.node,
        greatest(priced.from_token, lookup_shared.first_block * priced.block_size) as from_token,
        least(
            priced.to_token, (lookup_shared.first_block + lookup_shared.n_blocks) * priced.block_size
        ) as to_token
    from priced
    join lookup_shared
        on lookup_shared.lookup = priced.lookup
        and lookup_shared.first_block * priced.block_size < priced.to_token
        and (lookup_shared.first_block + lookup_shared.n_blocks) * priced.block_size > priced.from_token
    union all
    select
        priced.request_row,
        priced.card,
        priced.long,
        null as node,
        greatest(priced.from_token, coalesce(keyed.end_block * priced.block_size, 0)) as from_token,
        priced.to_token
    from priced
    left join keyed using (lookup)
    where coalesce(keyed.end_block * priced.block_size, 0) < priced.to_token
),
reads as (
    select previous_row, first_token as from_token, first_token + tokens as to_token
    from segments
    where hit and previous_row is not null
),
found as (
    select
        cut.request_row,
        cut.node,
        cut.from_token,
        any_value(cut.card) as card,
        any_value(cut.long) as long,
        any_value(cut.to_token) - cut.from_token as written_tokens,
        -- least() and greatest() skip null: without a reader they would say that everything was read.
        coalesce(
            sum(least(cut.to_token, reads.to_token) - greatest(cut.from_token, reads.from_token))
                filter (reads.previous_row is not null),
            0
        ) as read_tokens
    from cut
    left join reads
        on reads.previous_row = cut.request_row
        and reads.from_token < cut.to_token
        and cut.from_token < reads.to_token
    group by cut.request_row, cut.node, cut.from_token
)
select
    found.request_row,
    found.node,
    cards.currency,
    sum(found.written_tokens)::bigint as written_tokens,
    sum(greatest(0, found.written_tokens - found.read_tokens))::bigint as unread_tokens,
    sum(
        greatest(0, found.written_tokens - found.read_tokens)::decimal(16, 0)
        * (if(found.long, cards.write_1h_price, cards.write_price) - cards.base_price)
    ) as wasted_cost
from found
join cards using (card)
group by found.request_row, found.node, cards.currency
order by found.request_row, found.node nulls last
