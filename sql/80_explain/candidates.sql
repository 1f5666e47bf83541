-- Question: which requests can an id, or its short form, mean?
-- Row: one request with that id or that place in its log; where there is none, one whose id begins so.
-- Inputs: requests.
-- Parameters: asked (the id as given), stem (the same without the mark of a short id).
-- Columns: request_row, request_id, source_file, source_line, started_at
with found as (
    select
        *,
        request_id = $asked or source_file || ':' || source_line = $asked as exact
    from requests
    where request_id = $asked
        or source_file || ':' || source_line = $asked
        or starts_with(request_id, $stem)
)
select request_row, request_id, source_file, source_line, started_at
from found
qualify exact or not bool_or(exact) over ()
order by request_row
