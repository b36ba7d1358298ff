-- Executions that wait for a limit, in the order of their lane, and when each limit is checked
-- next.
-- @uses digits order
local M = {}

-- The names by which a quota with counts per key may count an execution.
local KEYED = {namespace = "namespace", lane = "lane_id", execution_kind = "execution_kind",
  concurrency_key = "concurrency_key"}

function M.key(tag, limit) return "ff:part:" .. tag .. ":waiting:" .. limit end

function M.looks_key(tag) return "ff:part:" .. tag .. ":limit_looks" end

function M.count(tag, limit) return redis.call("ZCARD", M.key(tag, limit)) end

-- An earlier check stays as it is.
function M.look_at(tag, limit, at) redis.call("ZADD", M.looks_key(tag), "LT", digits.of(at), limit) end

-- The next check: at a time, or none when no execution waits.
function M.set_look(tag, limit, at)
  if M.count(tag, limit) == 0 then
    redis.call("ZREM", M.looks_key(tag), limit)
  else
    redis.call("ZADD", M.looks_key(tag), digits.of(at), limit)
  end
end

function M.enter(x, limit, look_at)
  redis.call("ZADD", M.key(x.tag, limit), order.score(x), x.id)
  M.look_at(x.tag, limit, look_at)
end

function M.leave(x)
  redis.call("ZREM", M.key(x.tag, x.waits_for), x.id)
  if M.count(x.tag, x.waits_for) == 0 then redis.call("ZREM", M.looks_key(x.tag), x.waits_for) end
end

function M.is_listed(x) return redis.call("ZSCORE", M.key(x.tag, x.waits_for), x.id) ~= false end

local function names(x, limits)
  local out = {}
  for _, id in ipairs(limits.is_answered and {} or limits.budgets) do out[#out + 1] = "b:" .. id end
  for _, id in ipairs(limits.quotas) do
    out[#out + 1] = "q:" .. id
    for kind, field in pairs(KEYED) do
      local value = x[field] or (kind == "namespace" and "default") or ""
      out[#out + 1] = "q:" .. id .. ":" .. kind .. ":" .. value
    end
  end
  return out
end

-- The first of its limits that others wait for already; a new execution waits behind them.
function M.closed(x, limits)
  if x.limit_pass or redis.call("EXISTS", M.looks_key(x.tag)) == 0 then return nil end
  local list = names(x, limits)
  if #list == 0 then return nil end
  local found = redis.call("ZMSCORE", M.looks_key(x.tag), unpack(list))
  for i, name in ipairs(list) do
    if found[i] then return name end
  end
end

return M
