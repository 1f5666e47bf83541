-- Question: which shared prefixes carry the traffic, and what do their misses cost?
-- Row: one shared node with lookups in the window, and one row (unshared), key null, for the rest. The tokens of
--   all rows sum to the window's prompts. below_… are sums over the node and all shared nodes under it: never add
--   them. borne_cost is what the lookups whose last shared node this is pay on their whole way, the nodes above
--   included, each what it read and wrote itself; the rows sum to the input of the bill but for rent. unread_tokens
--   were written and never read, wasted_cost is what that cost above uncached input. Costs are null where the lookups
--   of a row pay in two currencies.
-- Inputs: owned, visits, asked, shared, unread.
-- Columns: key, parent_key, level, depth_tokens, requests, replicas, tenants, tenant, models, model, adapters,
--   adapter, prompt_tokens, hit_tokens, miss_uncacheable_tokens, miss_in_flight_tokens, miss_invalidated_tokens,
--   miss_expired_tokens, miss_evicted_tokens, miss_misrouted_tokens, miss_key_changed_tokens, miss_cold_tokens,
--   miss_unexplained_tokens, written_tokens, unread_tokens, below_prompt_tokens, below_hit_tokens, currency,
--   uncached_cost, paid_cost, wasted_cost, borne_cost, excess_cost, below_excess_cost, multiplier
with below as (
    select
        node,
        level,
        sum(prompt_tokens) over under as prompt_tokens,
        sum(hit_tokens) over under as hit_tokens,
        sum(excess_cost) over under as excess_cost
    from visits
    where node is not null
    window under as (partition by request_row order by level desc)
),
subtrees as (
    select
        node,
        any_value(level) as level,
        sum(prompt_tokens)::bigint as below_prompt_tokens,
        sum(hit_tokens)::bigint as below_hit_tokens,
        sum(excess_cost) as below_excess_cost
    from below
    group by node
),
users as (
    select
        visits.node,
        count(*) as requests,
        max(asked.block_size) as block_size,
        list_sort(list(distinct visits.replica)) as replicas,
        count(distinct asked.tenant) as tenants,
        min(asked.tenant) as tenant,
        count(distinct asked.model) as models,
        min(asked.model) as model,
        count(distinct asked.adapter) as adapters,
        min(asked.adapter) as adapter,
        sum(visits.prompt_tokens)::bigint as prompt_tokens,
        sum(visits.hit_tokens)::bigint as hit_tokens,
        sum(visits.written_tokens)::bigint as written_tokens,
        case when min(visits.currency) = max(visits.currency) then min(visits.currency) end as currency,
        sum(visits.excess_cost) as excess_cost,
        sum(visits.paid_cost) as paid_cost,
        sum(visits.uncached_cost) as uncached_cost
    from visits
    join asked using (request_row)
    group by visits.node
),
wasted as (
    select node, sum(unread_tokens)::bigint as unread_tokens, sum(wasted_cost) as wasted_cost
    from unread
    group by node
),
walks as (
    select
        arg_max(node, level) as node,
        sum(paid_cost) as paid_cost
    from visits
    where node is not null
    group by request_row
),
borne as (
    select node, sum(paid_cost) as borne_cost
    from walks
    group by node
),
missed as (
    select
        node,
        sum(if(cause = 'uncacheable', tokens, 0))::bigint as miss_uncacheable_tokens,
        sum(if(cause = 'in_flight', tokens, 0))::bigint as miss_in_flight_tokens,
        sum(if(cause = 'invalidated', tokens, 0))::bigint as miss_invalidated_tokens,
        sum(if(cause = 'expired', tokens, 0))::bigint as miss_expired_tokens,
        sum(if(cause = 'evicted', tokens, 0))::bigint as miss_evicted_tokens,
        sum(if(cause = 'misrouted', tokens, 0))::bigint as miss_misrouted_tokens,
        sum(if(cause = 'key_changed', tokens, 0))::bigint as miss_key_changed_tokens,
        sum(if(cause = 'cold', tokens, 0))::bigint as miss_cold_tokens,
        sum(if(cause = 'unexplained', tokens, 0))::bigint as miss_unexplained_tokens
    from owned
    group by node
)
select
    lower(hex(shared.key)) as key,
    lower(hex(parents.key)) as parent_key,
    subtrees.level,
    shared.depth_blocks * users.block_size as depth_tokens,
    users.requests,
    users.replicas,
    users.tenants,
    if(users.tenants = 1, users.tenant, null) as tenant,
    users.models,
    if(users.models = 1, users.model, null) as model,
    users.adapters,
    if(users.adapters = 1, users.adapter, null) as adapter,
    users.prompt_tokens,
    users.hit_tokens,
    missed.* exclude (node),
    users.written_tokens,
    coalesce(wasted.unread_tokens, 0) as unread_tokens,
    subtrees.below_prompt_tokens,
    subtrees.below_hit_tokens,
    users.currency,
    if(users.currency is null, null, users.uncached_cost) as uncached_cost,
    if(users.currency is null, null, users.paid_cost) as paid_cost,
    if(users.currency is null, null, coalesce(wasted.wasted_cost, 0)) as wasted_cost,
    case
        when users.currency is null then null
        when users.node is null then users.paid_cost
        else coalesce(borne.borne_cost, 0)
    end as borne_cost,
    if(users.currency is null, null, users.excess_cost) as excess_cost,
    if(users.currency is null, null, subtrees.below_excess_cost) as below_excess_cost,
    case
        when users.currency is not null and users.uncached_cost > 0
            then users.paid_cost::double / users.uncached_cost::double
    end as multiplier
from users
join missed on missed.node is not distinct from users.node
left join wasted on wasted.node is not distinct from users.node
left join borne on borne.node = users.node
left join subtrees on subtrees.node = users.node
left join shared on shared.node = users.node
left join shared as parents on parents.node = shared.parent_node
order by users.node is null, users.prompt_tokens - users.hit_tokens desc, users.prompt_tokens desc, key
