-- A budget: its definition, limits, usage, and amounts held for reservations.
--
-- One rule for every limit: an amount fits when used + held + amount is not above the limit. A
-- limit of 0 is no limit.
-- @uses bounds digits event reply tenant
local M = {}

-- The largest count: above it, whole numbers are no longer exact.
M.MAX_TOTAL = bounds.MAX_SAFE_INTEGER

-- Names of the budget and its keys, without reading it; nil and a refusal for another kind of key.
function M.at(key)
  local tag, id = key:match("^ff:budget:(%b{}):([^:%s]+)$")
  if not tag then return nil, reply.invalid("budget", "ff:budget:{tag}:<budget_id>", key) end
  return {
    key = key, tag = tag, id = id, limits = key .. ":limits", usage = key .. ":usage", reserved = key .. ":reserved",
    waiting = key .. ":waiting",
  }
end

-- Fields that are not dimensions; other programs put them there.
local NOT_A_DIMENSION = {breached_at = true}

local function read_numbers(b, key)
  local flat, found = redis.call("HGETALL", key), {}
  for i = 1, #flat, 2 do
    local name, number = flat[i], tonumber(flat[i + 1])
    if not NOT_A_DIMENSION[name] then
      if not number or number < 0 or number % 1 ~= 0 then
        return nil, reply.refuse("corruption", "budget " .. b.id .. ": " .. key .. " " .. name .. " is unreadable")
      end
      found[name] = number
    end
  end
  return found
end

local function split_limits(b, stored)
  b.hard, b.soft = {}, {}
  for name, limit in pairs(stored) do
    local kind, dimension = name:match("^(%a+):(.+)$")
    if limit > 0 and (kind == "hard" or kind == "soft") then b[kind][dimension] = limit end
  end
end

-- The whole budget. Absent and unreadable budgets are different refusals (G11); one of another
-- namespace counts as absent. namespace: of the execution that asks, if known.
function M.load(key, namespace)
  local b, refusal = M.at(key)
  if not b then return nil, refusal end
  local flat = redis.call("HGETALL", key)
  if #flat == 0 then return nil, reply.refuse("budget_not_found", b.id) end
  b.def = {}
  for i = 1, #flat, 2 do b.def[flat[i]] = flat[i + 1] end
  if tenant.hides_limit(b.def) or tenant.is_foreign(b.def, namespace) then
    return nil, reply.refuse("budget_not_found", b.id)
  end
  local stored
  for _, part in ipairs({{"limits", b.limits}, {"used", b.usage}, {"held", b.reserved}}) do
    stored, refusal = read_numbers(b, part[2])
    if refusal then return nil, refusal end
    if part[1] == "limits" then split_limits(b, stored) else b[part[1]] = stored end
  end
  return b
end

function M.used(b, name) return b.used[name] or 0 end

-- The amount that counts against the limit: spent or held.
function M.taken(b, name) return (b.used[name] or 0) + (b.held[name] or 0) end

function M.fits(b, name, amount)
  local limit = b.hard[name]
  return not limit or M.taken(b, name) + amount <= limit
end

-- Is the amount too large even without the holds?
function M.is_over(b, name, amount)
  local limit = b.hard[name]
  return limit ~= nil and M.used(b, name) + amount > limit
end

-- Is the soft limit exceeded?
function M.is_above_soft(b, name)
  local limit = b.soft[name]
  return limit ~= nil and M.used(b, name) > limit
end

function M.is_breached(b) return b.def.breached_at ~= nil and b.def.breached_at ~= "" end

-- The engine has work with this budget, now or at a time that it does not know yet.
function M.announce(b) redis.call("PUBLISH", "ff:budget", b.tag) end

-- A limit was exceeded: add a line to the log and a notice for the engine, once for each kind and
-- dimension until the engine has acted.
local function tell(b, kind, name, now)
  local numbers = digits.of(M.used(b, name)) .. " of " .. digits.of(b[kind][name])
  event.append_budget(b, "budget_" .. kind .. "_breached", now, name .. " " .. numbers)
  redis.call("ZADD", "ff:idx:" .. b.tag .. ":budget_notices", "NX", digits.of(now), kind .. " " .. b.id .. " " .. name)
  M.announce(b)
end

-- Note that a soft limit was exceeded.
function M.pass_soft(b, name, now)
  redis.call("HINCRBY", b.key, "soft_breach_count", 1)
  tell(b, "soft", name, now)
end

-- Note a breach once, until it ends (D20).
function M.breach(b, name, now)
  if M.is_breached(b) then return end
  local at = digits.of(now)
  redis.call("HSET", b.key, "breached_at", at, "last_breach_at", at, "last_breach_dim", name, "last_updated_at", at)
  redis.call("HINCRBY", b.key, "breach_count", 1)
  b.def.breached_at, b.def.last_breach_dim = at, name
  tell(b, "hard", name, now)
end

-- The breach of a dimension ends: by a reset, a higher limit or returned spend. If another
-- dimension is above its limit, the budget stays breached in that one.
function M.reopen(b, now)
  redis.call("ZREM", "ff:idx:" .. b.tag .. ":budget_notices", "hard " .. b.id .. " " .. (b.def.last_breach_dim or ""))
  for name in pairs(b.hard) do
    if M.is_over(b, name, 0) then
      redis.call("HSET", b.key, "last_breach_dim", name)
      b.def.last_breach_dim = name
      return tell(b, "hard", name, now)
    end
  end
  redis.call("HDEL", b.key, "breached_at")
  b.def.breached_at = nil
end

-- nil, or why nothing may start on this budget now: the dimension, its usage and its limit.
function M.obstacle(b)
  if M.is_breached(b) then
    local name = b.def.last_breach_dim
    return name, M.taken(b, name), b.hard[name] or 0
  end
  for name, limit in pairs(b.hard) do
    if not M.fits(b, name, 1) then return name, M.taken(b, name), limit end
  end
end

function M.next_reset_at(b) return tonumber(b.def.next_reset_at) end

return M
