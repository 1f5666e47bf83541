-- Question: by which rule was a piece of a prompt missed, given what its evidence says?
-- Row: none; it makes a macro for the statements of the session; null is a hit.
-- Inputs: none.
-- Columns: none.
create macro cause_of(hit, rule, own, resident, elsewhere, changed, reset, outlived) as case
    when hit then null
    -- Whenever it was last used: it is computed and not shown yet, or a rule of a hosted cache forbids it.
    when rule = 'in_flight' then rule
    when rule is not null then 'uncacheable'
    when not own and resident then 'misrouted'
    when not own and not elsewhere then if(changed, 'key_changed', 'cold')
    when reset then 'invalidated'
    when outlived then 'expired'
    else 'evicted'
end
