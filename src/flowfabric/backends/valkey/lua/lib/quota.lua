-- A quota policy: how many may start within a sliding window, and how many may run at once, over all or for each key.
--
-- Who is admitted has a ticket, under which it has a slot of its own, and a release frees only what its own ticket has
-- taken: so each may be repeated, and come late.
-- @uses digits reply tenant
local M = {}

local DEFAULT_WINDOW_MS = 60000
local NUMBERS = {
  rate = "max_requests_per_window", cap = "active_concurrency_cap", window_seconds = "requests_per_window_seconds",
  jitter_ms = "jitter_ms",
}

-- Names of the policy, without reading it; nil and a refusal for a key that is not a policy's.
function M.at(key)
  local tag, id = key:match("^ff:quota:(%b{}):([^:]+)$")
  if not tag then return nil, reply.invalid("quota", "ff:quota:{tag}:<quota_policy_id>", key) end
  return {key = key, tag = tag, id = id}
end

function M.set_limits(q, window_seconds, rate, cap)
  q.window_ms, q.rate, q.cap = window_seconds > 0 and window_seconds * 1000 or DEFAULT_WINDOW_MS, rate, cap
  return q
end

-- The whole policy. An absent one and an unreadable one are different refusals (G11).
function M.load(key)
  local q, refusal = M.at(key)
  if not q then return nil, refusal end
  local flat, def = redis.call("HGETALL", key), {}
  if #flat == 0 then return nil, reply.refuse("quota_policy_not_found", q.id) end
  for i = 1, #flat, 2 do def[flat[i]] = flat[i + 1] end
  if tenant.hides_limit(def) then return nil, reply.refuse("quota_policy_not_found", q.id) end
  for name, field in pairs(NUMBERS) do
    local number = tonumber(def[field] or "0")
    if not number or number < 0 then
      return nil, reply.refuse("corruption", "quota policy " .. q.id .. ": " .. field .. " is unreadable")
    end
    q[name] = number
  end
  q.key_by, q.def = def.key_by, def
  return M.set_limits(q, q.window_seconds, q.rate, q.cap)
end

-- What the names of one key's counts end with; "" where all share one count. who: the execution's own names.
function M.suffix(q, who)
  if not q.key_by then return "" end
  return ":" .. q.key_by .. ":" .. (who[q.key_by] or "")
end

function M.window(q, suffix) return q.key .. ":window:requests_per_window" .. suffix end

function M.admitted(q, suffix) return q.key .. ":admitted_set" .. suffix end

function M.waiting(q, suffix) return q.key .. ":waiting" .. suffix end

-- Who has a slot: an execution under a ticket, or by itself.
local function holder(id, ticket) return ticket > 0 and id .. "#" .. digits.of(ticket) or id end

local function guard(q, who) return q.key .. ":admitted:" .. who end

-- How long until the window has room, when it has none.
local function wait_for_window(q, suffix, now)
  local key = M.window(q, suffix)
  redis.call("ZREMRANGEBYSCORE", key, "-inf", digits.of(now - q.window_ms))
  local over = redis.call("ZCARD", key) - q.rate
  if q.rate == 0 or over < 0 then return nil end
  local first_to_go = redis.call("ZRANGE", key, over, over, "WITHSCORES")[2]
  return math.max(1, tonumber(first_to_go) + q.window_ms - now)
end

-- How many more may start now, and when none may because of the window, in how many milliseconds one can.
function M.room(q, suffix, now)
  local wait = wait_for_window(q, suffix, now)
  if wait then return 0, wait end
  local room = q.rate > 0 and q.rate - redis.call("ZCARD", M.window(q, suffix)) or 1000000
  if q.cap > 0 then room = math.min(room, q.cap - redis.call("SCARD", M.admitted(q, suffix))) end
  return math.max(0, room)
end

local function record(q, suffix, who, ticket, is_resume, now)
  local key = M.window(q, suffix)
  if q.rate > 0 and not is_resume then
    redis.call("ZADD", key, digits.of(now), who)
    redis.call("PEXPIRE", key, 2 * q.window_ms + DEFAULT_WINDOW_MS)
  end
  -- One that nobody will release, since it has no ticket, must not stay where there are no slots to count.
  if q.cap == 0 and ticket == 0 then return redis.call("SET", guard(q, who), "", "PX", q.window_ms) end
  redis.call("SET", guard(q, who), suffix)
  redis.call("SADD", M.admitted(q, suffix), who)
end

-- Admit an execution, or say why not and how long to wait. is_resume: it goes on, and has started long ago.
function M.admit(q, suffix, id, ticket, is_resume, now)
  local who = holder(id, ticket)
  if redis.call("EXISTS", guard(q, who)) == 1 then return "ALREADY_ADMITTED" end
  local wait = not is_resume and wait_for_window(q, suffix, now)
  if wait then return "RATE_EXCEEDED", wait end
  if q.cap > 0 and redis.call("SCARD", M.admitted(q, suffix)) >= q.cap then return "CONCURRENCY_EXCEEDED" end
  record(q, suffix, who, ticket, is_resume, now)
  return "ADMITTED"
end

-- Give back what this ticket has taken; nil when it has nothing, else under which key's counts it was. is_unused: it
-- has not started, so that its place in the window is free again.
function M.release(q, id, ticket, is_unused)
  local who = holder(id, ticket)
  local suffix = redis.call("GET", guard(q, who))
  if not suffix and ticket > 0 then
    who, suffix = id, redis.call("GET", guard(q, id))  -- admitted by a scheduler that knows no tickets
  end
  if not suffix then return nil end
  if suffix == "1" then suffix = "" end  -- what other programs write
  redis.call("DEL", guard(q, who))
  redis.call("SREM", M.admitted(q, suffix), who)
  if is_unused then redis.call("ZREM", M.window(q, suffix), who) end
  return suffix
end

return M
