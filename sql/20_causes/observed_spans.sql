-- Question: which stretches has the prompt of a row with usage and no keys, and what does usage prove of each?
-- Row: one stretch of one row, by place: read; what its conversation had stored before (1); what that had asked, and
--   not stored (2); what is new (3); what follows the last mark (4), which services that count writes leave out of both
--   reads and writes. Stretches without tokens are left out.
-- Inputs: unmeasured, requests, turns.
-- Columns: request_row, place, first_token, tokens, written_tokens, written_1h_tokens, hit, cause, detail,
--   previous_row, last_used_at, needed_ttl_us, longer_ttl
with counted as (
    select
        requests.request_row,
        requests.prompt_tokens,
        requests.cached_tokens_observed as read_tokens,
        coalesce(requests.cache_write_5m_tokens_observed, 0) + coalesce(requests.cache_write_1h_tokens_observed, 0)
            + coalesce(requests.cache_write_other_tokens_observed, 0) as written_tokens,
        coalesce(requests.cache_write_1h_tokens_observed, 0) as written_1h_tokens,
        coalesce(requests.bypassed, false) and requests.cached_tokens_observed = 0 as skips
    from unmeasured
    join requests using (request_row)
    where unmeasured.reason = 'usage'
),
ended as (
    select
        counted.*,
        turns.* exclude (request_row),
        turns.opening is null as goes_on,
        coalesce(turns.minimum_tokens > prompt_tokens, false) and read_tokens + written_tokens = 0 as too_short,
        -- Neither read nor written: no mark was seen, and usage does not say that there was none.
        if(counts_writes and read_tokens + written_tokens > 0, read_tokens + written_tokens, prompt_tokens) as end_token
    from counted
    join turns using (request_row)
),
-- Both ends of every stretch, each at or behind the one before.
placed as (
    select
        *,
        least(greatest(stored_tokens, read_tokens), end_token) as known_end,
        least(greatest(asked_tokens, known_end), end_token) as asked_end
    from ended
),
cut as (
    select
        placed.*,
        stretch.place,
        case stretch.place
            when 0 then 0 when 1 then read_tokens when 2 then known_end when 3 then asked_end else end_token
        end as first_token,
        case stretch.place
            when 0 then read_tokens when 1 then known_end when 2 then asked_end when 3 then end_token
            else prompt_tokens
        end as last_token
    from placed
    cross join (values (0), (1), (2), (3), (4)) as stretch (place)
),
judged_spans as (
    select
        *,
        case
            when place = 0 then null
            when skips or too_short then 'uncacheable'
            when place = 4 then 'uncacheable'
            -- Where the request before stored nothing at all, usage does not say that it had no mark.
            when place = 2 then if(counts_writes and stored_tokens > 0, 'uncacheable', 'unexplained')
            when place = 3 then if(goes_on or opening in ('first', 'branch'), 'cold', 'unexplained')
            -- More than a drift in counting, and nothing of it can have been alive.
            when stored_tokens > read_tokens + tolerance_tokens and alive_tokens <= read_tokens + tolerance_tokens
                then 'expired'
            -- Reads in steps of 128 tokens; see STEP_TOKENS of the reader of turns.
            when not counts_writes and stored_tokens - read_tokens < 128 then 'uncacheable'
            else 'unexplained'
        end as cause
    from cut
    where last_token > first_token
)
select
    request_row,
    place,
    first_token,
    last_token - first_token as tokens,
    greatest(
        0, least(last_token, read_tokens + written_tokens) - greatest(first_token, read_tokens)
    ) as written_tokens,
    greatest(
        0, least(last_token, read_tokens + written_1h_tokens) - greatest(first_token, read_tokens)
    ) as written_1h_tokens,
    place = 0 as hit,
    cause,
    case
        when cause = 'cold' then if(warming_up, 'window_start', 'new_content')
        when place = 0 or cause <> 'uncacheable' then null
        when skips then 'bypassed'
        when too_short then 'below_minimum'
        when place = 1 then 'partial_block'
        else 'no_breakpoint'
    end as detail,
    if(place <= 1, previous_row, null) as previous_row,
    if(place <= 1, last_used_at, null) as last_used_at,
    if(cause = 'expired', gap_us, null) as needed_ttl_us,
    cause = 'expired' and coalesce(gap_us <= longest_ttl_us, true) as longer_ttl
from judged_spans
order by request_row, place
