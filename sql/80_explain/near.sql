-- Question: which ids look most like one that does not exist?
-- Row: one id, the most similar first.
-- Inputs: requests.
-- Parameters: asked (the id as given, without the mark of a short id), most (rows at most).
-- Columns: request_id
select request_id
from requests
where jaro_winkler_similarity(request_id, $asked) >= 0.75
group by request_id
order by jaro_winkler_similarity(request_id, $asked) desc, request_id
limit $most
