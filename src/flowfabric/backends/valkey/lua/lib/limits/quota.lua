-- A quota policy: starts per sliding window, and concurrency, over all or for each key.
-- @uses digits reply tenant
local M = {}

local DEFAULT_WINDOW_MS = 60000
local NUMBERS = {
  rate = "max_requests_per_window", cap = "active_concurrency_cap", window_seconds = "requests_per_window_seconds",
  jitter_ms = "jitter_ms",
}

-- Names of the policy, without reading it; nil and a refusal for another kind of key.
function M.at(key)
  local tag, id = key:match("^ff:quota:(%b{}):([^:]+)$")
  if not tag then return nil, reply.invalid("quota", "ff:quota:{tag}:<quota_policy_id>", key) end
  return {key = key, tag = tag, id = id}
end

function M.set_limits(q, window_seconds, rate, cap)
  q.window_ms, q.rate, q.cap = window_seconds > 0 and window_seconds * 1000 or DEFAULT_WINDOW_MS, rate, cap
  return q
end

-- The whole policy. Absent and unreadable policies are different refusals (G11).
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

-- The suffix of one key's counts; "" where all share one count. who: the names of the execution.
function M.suffix(q, who)
  if not q.key_by then return "" end
  return ":" .. q.key_by .. ":" .. (who[q.key_by] or "")
end

function M.window(q, suffix) return q.key .. ":window:requests_per_window" .. suffix end

function M.admitted(q, suffix) return q.key .. ":admitted_set" .. suffix end

-- The suffixes with counts, in order; the shared one, "", is not listed.
function M.counted(q) return q.key .. ":counted" end

function M.note_counted(q, suffix)
  if suffix ~= "" then redis.call("ZADD", M.counted(q), 0, suffix) end
end

function M.waiting(q, suffix) return q.key .. ":waiting" .. suffix end

-- How long until the window has room, when it has none.
function M.wait_for_window(q, suffix, now)
  local key = M.window(q, suffix)
  redis.call("ZREMRANGEBYSCORE", key, "-inf", digits.of(now - q.window_ms))
  local over = redis.call("ZCARD", key) - q.rate
  if q.rate == 0 or over < 0 then return nil end
  local first_to_go = redis.call("ZRANGE", key, over, over, "WITHSCORES")[2]
  return math.max(1, tonumber(first_to_go) + q.window_ms - now)
end

-- How many more may start now; if the window is full, in how many milliseconds one can.
function M.room(q, suffix, now)
  local wait = M.wait_for_window(q, suffix, now)
  if wait then return 0, wait end
  local room = q.rate > 0 and q.rate - redis.call("ZCARD", M.window(q, suffix)) or 1000000
  if q.cap > 0 then room = math.min(room, q.cap - redis.call("SCARD", M.admitted(q, suffix))) end
  return math.max(0, room)
end

return M
