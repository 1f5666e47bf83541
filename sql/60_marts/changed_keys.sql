-- Question: which changes of prompts made keys new, what varies there, and what did each cost?
-- Row: one kind of change: detail, part of the prompt, what varies, and how many changes stand before it in the
--   same prompt. Places and lengths are medians over its requests; tokens are those that it alone would free once
--   the changes before it are gone.
-- Inputs: segments, asked.
-- Columns: detail, part, varies, layer, requests, tokens, at_token, new_tokens, old_tokens, n_places, first_at,
--   last_at
select
    segments.detail,
    segments.changed_part as part,
    segments.varies,
    segments.changed_layer as layer,
    count(distinct segments.request_row) as requests,
    sum(segments.tokens)::bigint as tokens,
    quantile_disc(segments.changed_at_token, 0.5) as at_token,
    quantile_disc(segments.changed_new_tokens, 0.5) as new_tokens,
    quantile_disc(segments.changed_old_tokens, 0.5) as old_tokens,
    count(distinct segments.changed_at_token) as n_places,
    min(segments.admitted_at) as first_at,
    max(segments.admitted_at) as last_at
from segments
join asked using (request_row)
where segments.cause = 'key_changed'
group by all
order by tokens desc, detail, part nulls last, varies nulls last, layer
