-- Question: which written tokens did nobody read by the end of the log?
-- Row: one lookup of the window that wrote. The next use of what it wrote, on its replica, is a hit or it is none:
--   each hit names the lookup that used the same tokens last. unread_1h_tokens is the part that was written to live
--   longer; wasted_cost is what writing the unread cost above uncached input.
-- Inputs: segments, asked, cards.
-- Columns: request_row, currency, written_tokens, unread_tokens, wasted_cost
with writes as (
    select
        segments.request_row,
        segments.first_token,
        segments.first_token + segments.written_tokens as end_token,
        segments.written_tokens,
        segments.written_1h_tokens
    from segments
    semi join asked using (request_row)
    where not segments.hit and segments.written_tokens > 0
),
reads as (
    select previous_row, first_token, first_token + tokens as end_token
    from segments
    where hit and previous_row is not null
),
found as (
    select
        writes.request_row,
        writes.first_token,
        any_value(writes.written_tokens) as written_tokens,
        any_value(writes.written_1h_tokens) as written_1h_tokens,
        -- least() and greatest() skip null: without a reader they would say that everything was read.
        sum(
            least(writes.end_token, reads.end_token) - greatest(writes.first_token, reads.first_token)
        ) filter (reads.previous_row is not null) as read_tokens
    from writes
    left join reads
        on reads.previous_row = writes.request_row
        and reads.first_token < writes.end_token
        and writes.first_token < reads.end_token
    group by writes.request_row, writes.first_token
),
-- A piece pays one price, or is cut where the longer lifetime ends: what it read of it comes first.
summed as (
    select
        request_row,
        sum(written_tokens)::bigint as written_tokens,
        sum(greatest(0, written_tokens - coalesce(read_tokens, 0)))::bigint as unread_tokens,
        sum(greatest(0, written_1h_tokens - coalesce(read_tokens, 0)))::bigint as unread_1h_tokens
    from found
    group by request_row
)
select
    summed.request_row,
    cards.currency,
    summed.written_tokens,
    summed.unread_tokens,
    (summed.unread_tokens - summed.unread_1h_tokens)::decimal(16, 0) * (cards.write_price - cards.base_price)
        + summed.unread_1h_tokens::decimal(16, 0) * (cards.write_1h_price - cards.base_price) as wasted_cost
from summed
join asked using (request_row)
join cards on cards.card = asked.card
order by summed.request_row
