-- Question: which tokens of a prompt could not have hit under the rules of its cache, and why not?
-- Row: one lookup with such tokens: those from its cap on, or all of them where it is larger than the cache.
-- Inputs: lookup_facts.
-- Columns: request_row, lookup, first_block, n_blocks, last_block, tokens, written_tokens, detail
with capped as (
    select *, if(refused, 0, cap_blocks) as first_block
    from lookup_facts
)
select
    request_row,
    lookup,
    first_block::bigint as first_block,
    full_blocks - first_block as n_blocks,
    if(full_blocks > first_block, last_block, null) as last_block,
    prompt_tokens - first_block * block_size as tokens,
    -- A hosted cache stores nothing behind the last mark; an engine all full blocks.
    if(refused, 0, greatest(0, coalesce(stored_blocks, full_blocks) - first_block) * block_size) as written_tokens,
    case
        when refused then 'larger_than_cache'
        when tail_rule is not null then tail_rule
        when prompt_tokens % block_size <> 0 then 'partial_block'
        else 'last_token'
    end as detail
from capped
where prompt_tokens > first_block * block_size
