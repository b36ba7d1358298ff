-- The registered workers: a hash each, and two indexes, all on one slot (D30).
-- @uses digits reply
local M = {}

local PREFIX = "ff:worker:{workers}:"

-- When each expires without a heartbeat, and all of them by name.
M.BY_EXPIRY = PREFIX .. "by_expiry"
M.BY_NAME = PREFIX .. "by_name"

local function facts(name) return PREFIX .. name .. ":caps" end

-- The worker that a key names, as `<namespace>:<instance>`, both escaped by lib/base/names.lua. Or
-- a refusal.
function M.name(key)
  local name = key:match("^ff:worker:{workers}:([^:]+:[^:]+):caps$")
  if not name then return nil, reply.invalid("caps", PREFIX .. "<namespace>:<instance>:caps", key) end
  return name
end

-- When it expires; nil when it has expired or was never registered.
function M.alive_until(name, now)
  local expiry = tonumber(redis.call("ZSCORE", M.BY_EXPIRY, name) or 0)
  return expiry > now and expiry or nil
end

function M.fact(name, field) return redis.call("HGET", facts(name), field) end

function M.facts(name, fields) return redis.call("HMGET", facts(name), unpack(fields)) end

-- A heartbeat: it lives for another ttl_ms.
function M.prolong(name, now, ttl_ms)
  redis.call("HSET", facts(name), "last_heartbeat_ms", digits.of(now))
  redis.call("ZADD", M.BY_EXPIRY, digits.of(now + ttl_ms), name)
  return now + ttl_ms
end

-- Replace the registration. fields: name, value, ...
function M.enrol(name, fields)
  redis.call("DEL", facts(name))
  redis.call("HSET", facts(name), unpack(fields))
  redis.call("ZADD", M.BY_NAME, 0, name)
end

function M.strike(name)
  redis.call("DEL", facts(name))
  redis.call("ZREM", M.BY_EXPIRY, name)
  redis.call("ZREM", M.BY_NAME, name)
end

-- The workers that had expired at that time, the longest first.
function M.dead(now, limit)
  return redis.call("ZRANGE", M.BY_EXPIRY, "-inf", digits.of(now), "BYSCORE", "LIMIT", 0, limit)
end

-- The names after one, of one namespace or all.
function M.names(namespace, after, count)
  local from = after ~= "" and "(" .. after or namespace ~= "" and "[" .. namespace .. ":" or "-"
  local to = namespace ~= "" and "(" .. namespace .. ";" or "+"
  return redis.call("ZRANGE", M.BY_NAME, from, to, "BYLEX", "LIMIT", 0, count)
end

return M
