-- Question: do the facts of a lookup cover its cacheable blocks once, without gap or overlap?
-- Row: one lookup where they do not, or where their hits differ from the hits of the replay; none is right.
-- Inputs: lookup_facts, judged.
-- Columns: lookup, cacheable_blocks, covered_blocks, reached_block, hit_blocks, fact_hit_blocks
with expected as (
    select lookup, hit_blocks, if(refused, 0, cap_blocks) as cacheable_blocks
    from lookup_facts
),
found as (
    select
        lookup,
        sum(n_blocks) as covered_blocks,
        max(first_block + n_blocks) as reached_block,
        count(distinct first_block) as starts,
        count(*) as pieces,
        sum(n_blocks) filter (hit) as fact_hit_blocks
    from judged
    group by lookup
)
select
    coalesce(expected.lookup, found.lookup) as lookup,
    expected.cacheable_blocks,
    coalesce(found.covered_blocks, 0) as covered_blocks,
    coalesce(found.reached_block, 0) as reached_block,
    expected.hit_blocks,
    coalesce(found.fact_hit_blocks, 0) as fact_hit_blocks
from expected
full join found using (lookup)
where expected.lookup is null
    or coalesce(found.covered_blocks, 0) <> expected.cacheable_blocks
    or coalesce(found.reached_block, 0) <> expected.cacheable_blocks
    or found.starts <> found.pieces
    or coalesce(found.fact_hit_blocks, 0) <> expected.hit_blocks
order by 1
