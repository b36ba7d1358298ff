-- The output stream of one attempt; here only its end. The first frame notes in the record which attempt has one.
local M = {}

-- Close the attempt's stream where it has one and it is still open.
function M.close(x, index, reason, now)
  if not index or x.stream_attempt_index ~= index then return end
  local meta = "ff:stream:" .. x.tag .. ":" .. x.id .. ":" .. index .. ":meta"
  local closed = redis.call("HGET", meta, "closed_at")
  if closed and closed ~= "" then return end
  redis.call("HSET", meta, "closed_at", now, "closed_reason", reason)
end

return M
