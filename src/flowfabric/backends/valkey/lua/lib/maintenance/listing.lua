-- Reads of a whole partition: the queues of a state, and cursors that outlive their entries.
-- @uses index_key reply
local M = {}

M.STATES = {
  "waiting", "delayed", "rate_limited", "waiting_children", "active", "suspended", "completed", "failed", "cancelled",
  "expired", "skipped",
}

-- `terminal` lists all ends; only unsuccessful ones have a queue of their own.
local QUEUES = {
  waiting = {"eligible", "blocked:route", "blocked:operator", "blocked:lane_state"},
  delayed = {"delayed"},
  rate_limited = {"blocked:budget", "blocked:quota"},
  waiting_children = {"blocked:dependencies"},
  active = {"active"},
  suspended = {"suspended"},
  completed = {"terminal"},
  failed = {"terminal:failed"},
  cancelled = {"terminal:cancelled"},
  expired = {"terminal:expired"},
  skipped = {"terminal:skipped"},
}
local ALL = {"waiting", "delayed", "rate_limited", "waiting_children", "active", "suspended", "completed"}

-- Few enough to be sorted by age inside one call.
M.FEW = 500
local MAX_LANES = 100

-- The hash tag of the routing key, or a refusal.
function M.tag(key)
  local tag = key:match("^ff:part:(%b{}):events$")
  if not tag then return nil, reply.invalid("partition", "ff:part:{tag}:events", key) end
  return tag
end

-- The named lane, or all lanes of the partition in order, from one on.
function M.lanes(tag, named, from)
  if named ~= "" then return {named} end
  local out = {}
  for _, name in ipairs(redis.call("SMEMBERS", index_key.partition({tag = tag}, "lanes"))) do
    if name >= from then out[#out + 1] = name end
  end
  table.sort(out)
  return out
end

-- The queues of eligible executions, by required capabilities.
function M.eligible(tag, lane)
  local of_lane = index_key.of_lane({tag = tag, lane_id = lane})
  local keys = {of_lane.eligible}
  for _, needs in ipairs(redis.call("SMEMBERS", of_lane.capability_sets)) do
    keys[#keys + 1] = of_lane["eligible:" .. needs]
  end
  return keys
end

-- Every index that may list a lane's executions in this public state.
function M.queues(tag, lane, state)
  local keys = state == "waiting" and M.eligible(tag, lane) or {}
  for _, name in ipairs(QUEUES[state] or {}) do
    if name ~= "eligible" then keys[#keys + 1] = index_key.lane({tag = tag, lane_id = lane}, name) end
  end
  return keys
end

function M.count(keys)
  local total = 0
  for _, key in ipairs(keys) do total = total + redis.call("ZCARD", key) end
  return total
end

-- How many entries of a sorted set come before a position; with `inclusive` also the one at it.
function M.rank(key, score, id, inclusive)
  local low, high = redis.call("ZCOUNT", key, "-inf", "(" .. score), redis.call("ZCOUNT", key, "-inf", score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    local entry = redis.call("ZRANGE", key, middle, middle)[1]
    if entry < id or (inclusive and entry == id) then low = middle + 1 else high = middle end
  end
  return low
end

-- A page of an index by age: entries {id, created_at} in order, and whether more follow.
function M.walk(key, q, budget)
  local low = q.since and redis.call("ZCOUNT", key, "-inf", "(" .. q.since) or 0
  local high = redis.call("ZCOUNT", key, "-inf", q.before and "(" .. q.before or "+inf")
  if q.after_id ~= "" then
    local place = M.rank(key, q.after_ms, q.after_id, not q.newest)
    if q.newest then high = math.min(high, place) else low = math.max(low, place) end
  end
  local count, out = math.max(0, math.min(high - low, budget)), {}
  if count == 0 then return out, false end
  local from = q.newest and high - count or low
  local flat = redis.call("ZRANGE", key, from, from + count - 1, "WITHSCORES")
  for i = 1, count do
    local at = 2 * (q.newest and count - i or i - 1)
    out[i] = {flat[at + 1], flat[at + 2]}
  end
  return out, high - low > count
end

local function is_asked_for(q, entry)
  local ms = tonumber(entry[2])
  if (q.since and ms < q.since) or (q.before and ms >= q.before) then return false end
  if q.after_id == "" then return true end
  if ms ~= q.after_ms then return (ms < q.after_ms) == q.newest end
  return entry[1] ~= q.after_id and (entry[1] < q.after_id) == q.newest
end

-- The queues of the query, when they hold few executions in all; nil otherwise.
function M.few(tag, q)
  if q.lane_id == "" and q.state == "" then return nil end
  local lanes, keys = M.lanes(tag, q.lane_id, ""), {}
  if #lanes > MAX_LANES then return nil end
  for _, lane in ipairs(lanes) do
    for _, state in ipairs(q.state ~= "" and {q.state} or ALL) do
      for _, key in ipairs(M.queues(tag, lane, state)) do keys[#keys + 1] = key end
    end
  end
  return M.count(keys) <= M.FEW and keys or nil
end

-- The same as walk, over queues that are not sorted by age.
function M.gather(tag, keys, q)
  local out = {}
  for _, key in ipairs(keys) do
    local all = index_key.partition({tag = tag}, "all_executions")
    local flat = redis.call("ZINTER", 2, key, all, "WEIGHTS", 0, 1, "WITHSCORES")
    for i = 1, #flat, 2 do
      local entry = {flat[i], flat[i + 1]}
      if is_asked_for(q, entry) then out[#out + 1] = entry end
    end
  end
  table.sort(out, function(a, b)
    if a[2] ~= b[2] then return (tonumber(a[2]) < tonumber(b[2])) ~= q.newest end
    return a[1] ~= b[1] and (a[1] < b[1]) ~= q.newest
  end)
  return out, false
end

return M
