-- Question: what hit and what was missed before a moment, and after it, in all or of one value of a field?
-- Row: before and after, whichever has lookups.
-- Inputs: asked, prefix_of.
-- Parameters: begin_us, at_us, end_us, field (all for the whole), value.
-- Columns: side, requests, prompt_tokens, hit_tokens, miss_uncacheable_tokens, miss_in_flight_tokens,
--   miss_invalidated_tokens, miss_expired_tokens, miss_evicted_tokens, miss_misrouted_tokens,
--   miss_key_changed_tokens, miss_cold_tokens, miss_unexplained_tokens
select
    if(epoch_us(started_at) < $at_us, 'before', 'after') as side,
    count(*) as requests,
    sum(columns('^(prompt|hit|miss_.+)_tokens$'))::bigint as '\0'
from asked
left join prefix_of using (request_row)
where epoch_us(started_at) >= $begin_us
    and epoch_us(started_at) < $end_us
    and case $field
        when 'tenant' then asked.tenant = $value
        when 'prefix' then prefix_of.prefix = $value
        when 'model' then asked.model = $value
        when 'release' then asked.release = $value
        when 'replica' then asked.replica = $value
        else true
    end
group by side
order by side desc
