-- Question: what does it cost that the same content is kept apart under several salts, adapters or namespaces?
-- Row: one field that keeps it apart, and one tenant; the most tokens first. cost is what the misses cost above the
--   price of a read.
-- Inputs: segments, asked, cards, requests, salts.
-- Columns: differs, tenant, requests, tokens, currency, cost
with apart as (
    select
        case
            when here.adapter is distinct from there.adapter then 'adapter'
            when salt_here.cache_salt is distinct from salt_there.cache_salt then 'cache_salt'
            else 'namespace'
        end as differs,
        asked.tenant,
        segments.request_row,
        segments.tokens,
        cards.currency,
        (segments.written_tokens - segments.written_1h_tokens)::decimal(16, 0) * cards.write_price
            + segments.written_1h_tokens::decimal(16, 0) * cards.write_1h_price
            + (segments.tokens - segments.written_tokens)::decimal(16, 0) * cards.base_price
            - segments.tokens::decimal(16, 0) * cards.read_price as cost
    from segments
    join asked using (request_row)
    join cards using (card)
    join requests as here on here.request_row = segments.request_row
    join requests as there on there.request_row = segments.previous_row
    join salts as salt_here on salt_here.request_row = segments.request_row
    join salts as salt_there on salt_there.request_row = segments.previous_row
    where segments.cause = 'key_changed' and segments.detail = 'namespace_split'
)
select
    differs,
    tenant,
    count(distinct request_row) as requests,
    sum(tokens)::bigint as tokens,
    currency,
    sum(cost) as cost
from apart
group by differs, tenant, currency
order by tokens desc, differs, tenant nulls last, currency
