-- The periods of a budget: from one reset to the next.
-- @uses budget digits
local M = {}

function M.interval(b) return tonumber(b.def.reset_interval_ms) or 0 end

-- The next reset, on the schedule, however late this one is.
function M.next_due(b, now)
  local interval = M.interval(b)
  if interval <= 0 then return nil end
  local due = budget.next_reset_at(b) or now
  if due > now then return due end
  return due + interval * (math.floor((now - due) / interval) + 1)
end

-- Start a new period: totals are 0, old ledgers no longer count, open holds stay.
function M.begin(b, now, next_at)
  local at, schedule = digits.of(now), "ff:idx:" .. b.tag .. ":budget_resets"
  for name in pairs(b.used) do
    redis.call("HSET", b.usage, name, "0")
    b.used[name] = 0
  end
  redis.call("HINCRBY", b.key, "reset_count", 1)
  redis.call("HSET", b.key, "last_reset_at", at, "last_updated_at", at)
  budget.reopen(b, now)
  redis.call("HDEL", b.key, "last_breach_at", "last_breach_dim")
  if not next_at then
    redis.call("HDEL", b.key, "next_reset_at")
    redis.call("ZREM", schedule, b.id)
    return 0
  end
  redis.call("HSET", b.key, "next_reset_at", digits.of(next_at))
  redis.call("ZADD", schedule, digits.of(next_at), b.id)
  return next_at
end

return M
