--- Reset the budgets of a partition that are due, up to a limit.
-- @keys    budget_resets
-- @args    limit:pos
-- @reply   reset next_at now_ms
-- @errors  invalid_input
-- @repeat  safe
-- @uses    budget clock digits period reply
local MAX_LIMIT, SET_ASIDE_MS = 1000, 60000

-- An unreadable budget is put off for a while, a deleted one is removed: neither blocks the rest.
local function reset(key, tag, id, now)
  local b, refusal = budget.load("ff:budget:" .. tag .. ":" .. id)
  if not b then
    if refusal[2] == "corruption" then
      redis.call("ZADD", key, digits.of(now + SET_ASIDE_MS), id)
    else
      redis.call("ZREM", key, id)
    end
    return false
  end
  local due = budget.next_reset_at(b)
  if due and due > now then
    redis.call("ZADD", key, digits.of(due), id)
    return false
  end
  period.begin(b, now, period.next_due(b, now))
  return true
end

return function(K, A)
  local now, tag = clock.now_ms(), K.budget_resets:match("^ff:idx:(%b{}):budget_resets$")
  if not tag then return reply.invalid("budget_resets", "ff:idx:{tag}:budget_resets", K.budget_resets) end
  if A.limit > MAX_LIMIT then return reply.invalid("limit", "at most " .. MAX_LIMIT, A.limit) end

  local done = {}
  for _, id in ipairs(redis.call("ZRANGE", K.budget_resets, "-inf", now, "BYSCORE", "LIMIT", 0, A.limit)) do
    if reset(K.budget_resets, tag, id, now) then done[#done + 1] = id end
  end
  local next_at = redis.call("ZRANGE", K.budget_resets, 0, 0, "WITHSCORES")[2]
  return {1, "OK", done, next_at or "", digits.of(now)}
end
