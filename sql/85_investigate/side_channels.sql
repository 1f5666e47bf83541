-- Question: which tenants hit what another tenant put into the cache, although the log separates tenants by salts?
-- Row: one tenant and one other that used the blocks last; one_salt says that both have the same salt, otherwise these
--   requests have none although requests of one of the two do. Tokens are hits.
-- Inputs: segments, asked, requests, salts.
-- Columns: tenant, other_tenant, one_salt, requests, tokens
with salting as (
    select requests.tenant
    from requests
    join salts using (request_row)
    where requests.tenant is not null and salts.cache_salt is not null
    group by requests.tenant
)
select
    asked.tenant,
    there.tenant as other_tenant,
    salts.cache_salt is not null as one_salt,
    count(distinct segments.request_row) as requests,
    sum(segments.tokens)::bigint as tokens
from segments
join asked using (request_row)
join salts using (request_row)
join requests as there on there.request_row = segments.previous_row
join salts as salt_there on salt_there.request_row = segments.previous_row
where segments.hit
    and asked.tenant != there.tenant
    and salts.cache_salt is not distinct from salt_there.cache_salt
    and (
        salts.cache_salt is not null
        or asked.tenant in (select salting.tenant from salting)
        or there.tenant in (select salting.tenant from salting)
    )
group by asked.tenant, there.tenant, one_salt
order by tokens desc, asked.tenant, there.tenant, one_salt
