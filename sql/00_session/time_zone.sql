-- Question: which zone do times of every later query have?
-- Row: none; it sets the session.
-- Inputs: none.
-- Columns: none.
set timezone = 'UTC'
