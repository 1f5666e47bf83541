-- Question: which shared prefix owns each token of the window, and what became of it?
-- Row: one outcome of one request on one shared node of its path; node is null for what no shared node owns:
--   blocks behind the last one, blocks without a key, tokens outside full blocks, requests without keys. level
--   counts the shared nodes above.
-- Inputs: pieces, lookup_shared.
-- Columns: request_row, node, level, replica, card, hit, cause, tokens, written_tokens, written_1h_tokens
with placed as (
    select
        lookup,
        node,
        first_block,
        n_blocks,
        row_number() over (partition by lookup order by first_block) - 1 as level
    from lookup_shared
),
keyed as (
    select lookup, max(first_block + n_blocks) as end_block from lookup_shared group by lookup
),
-- Of a prompt that was logged in part, or whose text is shorter than its length, the last blocks have no key.
unkeyed as (
    select
        pieces.*,
        pieces.first_block + pieces.n_blocks
        - greatest(pieces.first_block, coalesce(keyed.end_block, 0)) as unkeyed_blocks
    from pieces
    left join keyed using (lookup)
    where pieces.lookup is not null
        and pieces.n_blocks > 0
        and pieces.first_block + pieces.n_blocks > coalesce(keyed.end_block, 0)
),
cut as (
    select
        pieces.*,
        placed.node,
        if(placed.node is null, null, placed.level) as level,
        (
            least(placed.first_block + placed.n_blocks, pieces.first_block + pieces.n_blocks)
            - greatest(placed.first_block, pieces.first_block)
        ) * pieces.block_size as own_tokens,
        -- What is written to live longer lies at the head of a piece.
        greatest(
            0,
            least(
                placed.first_block + placed.n_blocks,
                pieces.first_block + pieces.written_1h_tokens // pieces.block_size
            ) - greatest(placed.first_block, pieces.first_block)
        ) * pieces.block_size as own_long_tokens
    from pieces
    join placed
        on placed.lookup = pieces.lookup
        and placed.first_block < pieces.first_block + pieces.n_blocks
        and pieces.first_block < placed.first_block + placed.n_blocks
)
select
    request_row,
    node,
    level,
    replica,
    card,
    hit,
    cause,
    own_tokens as tokens,
    -- A segment writes all of its full blocks or none.
    if(written_tokens > 0, own_tokens, 0) - own_long_tokens as written_tokens,
    own_long_tokens as written_1h_tokens
from cut
union all by name
select
    request_row,
    replica,
    card,
    hit,
    cause,
    unkeyed_blocks * block_size as tokens,
    if(written_tokens > 0, unkeyed_blocks * block_size, 0) as written_tokens,
    0 as written_1h_tokens
from unkeyed
union all by name
select
    request_row,
    replica,
    card,
    hit,
    cause,
    tokens - n_blocks * block_size as tokens,
    if(lookup is null, written_tokens - written_1h_tokens, 0) as written_tokens,
    if(lookup is null, written_1h_tokens, 0) as written_1h_tokens
from pieces
where tokens > n_blocks * block_size
