-- Tell engines of timers that are due soon, which their regular checks would find too late.
local M = {}

-- Engines find later timers in time: they check every partition more often than this.
local SOON_MS = 5000

function M.is_soon(due, now) return due - now <= SOON_MS end

-- The timer was added to the index at `key`. Only the first one of an index is announced: an engine that
-- handles it looks for the next one.
function M.tell(tag, key, due, now)
  local first = redis.call("ZRANGE", key, 0, 0, "WITHSCORES")[2]
  if first and tonumber(first) < due then return end
  redis.call("PUBLISH", "ff:due", tag .. " " .. string.format("%d", math.max(0, due - now)))
end

return M
