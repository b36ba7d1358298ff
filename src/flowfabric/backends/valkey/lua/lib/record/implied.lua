-- The index entries that a record implies: those its execution must have, and those it may have.
-- @uses index index_key key_index listing writes
local M = {}

local OF_THE_PARTITION = {
  "all_executions", "lease_expiry", "attempt_timeout", "execution_deadline", "suspension_timeout",
}

-- Every index of a lane; without a lane, every index of the partition.
function M.indexes(tag, lane)
  local keys = {}
  if lane == "" then
    for i, name in ipairs(OF_THE_PARTITION) do keys[i] = index_key.partition({tag = tag}, name) end
    return keys
  end
  keys[1] = index_key.lane({tag = tag, lane_id = lane}, "retention")
  for _, public in ipairs(listing.STATES) do
    for _, key in ipairs(listing.queues(tag, lane, public)) do keys[#keys + 1] = key end
  end
  return keys
end

-- When the execution entered its state, as far as the record tells.
local function entered_at(x)
  return tonumber(x.lifecycle_phase == "terminal" and x.completed_at or x.lease_revoked_at or x.last_mutation_at
    or x.created_at)
end

-- A collector that is never written. known: lane settings that this call has read already.
local function collector(known)
  local collected = writes.collector()
  collected.lanes = known
  return collected
end

-- Collect what entering the current state writes. The half millisecond marks scores that do not
-- follow from the record but say when the entry was made.
local function collect(x, known)
  local collected, at = collector(known), entered_at(x) + 0.5
  x.writes = collected
  index.enter(x, at)
  if x.ownership_state == "lease_revoked" then index.revoke(x, at) end
  index.register(x)
  x.writes = nil
  return collected
end

local function add_labels(x, scores, fixed)
  local labels = redis.call("HGETALL", x.base .. ":tags")
  for i = 1, #labels, 2 do
    local key = index_key.label(x, labels[i], labels[i + 1])
    scores[key], fixed[key] = tonumber(x.created_at), true
  end
end

-- Each stretch of running has the whole timeout; the record does not say how much of it the caller
-- left.
local function add_attempt_timeout(x, scores)
  local timeout = x.lifecycle_phase == "active" and tonumber(x.attempt_timeout_ms or 0) or 0
  if timeout == 0 then return end
  local started = x.lease_acquired_at or x.attempt_started_at or x.started_at
  scores[index_key.partition(x, "attempt_timeout")] = started + timeout
end

-- Deadlines are not in the record.
local function optional(x)
  local out = {}
  if x.lifecycle_phase ~= "terminal" then out[index_key.partition(x, "execution_deadline")] = true end
  return out
end

-- scores: the score in each sorted set, and fixed: where it must be exact. members: the entry of
-- each set. wakes: the queues that workers wait for. optional: indexes that may list it although
-- the record does not say so.
function M.by(x, known)
  local collected, scores, fixed, members = collect(x, known), {}, {}, {}
  for key, list in pairs(collected.zadd) do
    local score = tonumber(list[list.n - 1])
    scores[key], fixed[key] = math.floor(score), score % 1 == 0
  end
  for key, list in pairs(collected.sadd) do
    if not collected.srem[key] then members[key] = list[list.n] end
  end
  add_labels(x, scores, fixed)
  add_attempt_timeout(x, scores)
  return {scores = scores, fixed = fixed, members = members, wakes = collected.wake, optional = optional(x)}
end

-- The states in which executions of a concurrency key are listed together.
local KEYED = {
  {lifecycle_phase = "active"}, {lifecycle_phase = "runnable", eligibility_state = "eligible_now"},
  {lifecycle_phase = "runnable", waits_for_key = "1"},
}

-- The indexes of its concurrency key, which no list names: sorted sets, and sets of executions.
function M.of_key(x, known)
  local collected, sets = collector(known), {}
  for _, state_of_another in ipairs(KEYED) do
    local other = {writes = collected}
    for _, name in ipairs({"id", "tag", "lane_id", "namespace", "concurrency_key", "required_capabilities"}) do
      other[name] = x[name]
    end
    for name, value in pairs(state_of_another) do other[name] = value end
    key_index.enter(other, 0)
  end
  for key, list in pairs(collected.sadd) do
    if list[1] == x.id then sets[key] = true end
  end
  return collected.zadd, sets
end

return M
