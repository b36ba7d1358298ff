-- An idempotency key until success: an execution that ended without success loses it to a new one.
-- @uses record
local M = {}

-- The id that answers a submit of x; nil when the key is free. A repeated call of an execution that
-- lost its key finds that execution (G3).
function M.answer(x, existing)
  local other = record.load("ff:exec:" .. x.tag .. ":" .. existing .. ":core")
  local has_missed = other and other.lifecycle_phase == "terminal" and other.terminal_outcome ~= "success"
  if not has_missed then return existing end
  return redis.call("EXISTS", x.core) == 1 and x.id or nil
end

return M
