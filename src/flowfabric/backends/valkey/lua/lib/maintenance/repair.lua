-- Compare index entries with their records: missing entries are added, wrong ones removed.
-- @uses digits implied index_key key_index key_turns record wakeup
local M = {}

-- How many entries a call reads of an index that it visits on the side; of larger ones, random
-- entries.
local SOME = 100

-- A pass over some entries of a partition, which reads each record once. lanes, workers and keys:
-- those that it found.
function M.pass(tag)
  return {tag = tag, known = {}, settings = {}, workers = {}, lanes = {}, keys = {}, repaired = 0}
end

-- The execution and the entries that its record implies. Unreadable records are left alone.
local function look_up(pass, id)
  local found = pass.known[id]
  if found then return found end
  found = {}
  local core = "ff:exec:" .. pass.tag .. ":" .. id .. ":core"
  if redis.call("EXISTS", core) == 0 then
    found.is_gone = true
  else
    found.is_readable, found.implied = pcall(function()
      found.x = record.load(core)
      return implied.by(found.x, pass.settings)
    end)
  end
  pass.known[id] = found
  return found
end

local function belongs(found, key)
  if found.is_gone then return false end
  if not found.is_readable then return true end
  local all = found.implied
  return all.scores[key] or all.optional[key] or all.members[key]
end

local function is_right(x, all, key)
  local score = redis.call("ZSCORE", key, x.id)
  return score and (not all.fixed[key] or tonumber(score) == all.scores[key])
end

-- How many entries were added.
local function add_missing(x, all)
  local added = 0
  for key, score in pairs(all.scores) do
    if not is_right(x, all, key) then
      redis.call("ZADD", key, digits.of(score), x.id)
      if all.wakes[key] then wakeup.added(key, 1, x.tag, x.lane_id, x.required_capabilities) end
      added = added + 1
    end
  end
  for key, member in pairs(all.members) do added = added + redis.call("SADD", key, member) end
  return added
end

-- It no longer runs for this worker.
local function give_back(x, all)
  local key = x.current_worker_instance_id and index_key.worker_leases(x)
  return key and not all.members[key] and redis.call("SREM", key, x.id) or 0
end

-- Executions of one concurrency key with the same capabilities are listed together.
local function note_key(pass, x, repaired)
  local name = table.concat({x.lane_id, x.namespace or "", x.required_capabilities or "", x.concurrency_key}, "\n")
  local noted = pass.keys[name] or {x = x, repaired = 0}
  noted.repaired = noted.repaired + repaired
  pass.keys[name] = noted
end

-- Compare the entries of one index with their records, and all other entries of those records.
function M.entries(pass, key, ids)
  local are_leases = key == index_key.partition(pass, "lease_expiry")
  for _, id in ipairs(ids) do
    local found = look_up(pass, id)
    local x, repaired = found.x, 0
    if not belongs(found, key) then repaired = redis.call("ZREM", key, id) end
    if found.is_readable and not found.is_complete then
      found.is_complete = true
      repaired = repaired + add_missing(x, found.implied) + give_back(x, found.implied)
      if x.concurrency_key then note_key(pass, x, repaired) end
    end
    if are_leases and x and x.current_worker_instance_id then pass.workers[index_key.worker_leases(x)] = x end
    pass.repaired = pass.repaired + repaired
  end
end

-- The leases of every worker found: only what it runs belongs there.
function M.leases(pass)
  for key, x in pairs(pass.workers) do
    for _, id in ipairs(redis.call("SRANDMEMBER", key, SOME)) do
      local core = "ff:exec:" .. pass.tag .. ":" .. id .. ":core"
      local held = redis.call("HMGET", core, "lifecycle_phase", "ownership_state", "current_worker_instance_id")
      if held[1] ~= "active" or held[2] == "lease_revoked" or held[3] ~= x.current_worker_instance_id then
        pass.repaired = pass.repaired + redis.call("SREM", key, id)
      end
    end
  end
end

local function drop_strangers(pass, keys, pick, remove)
  local dropped = 0
  for key in pairs(keys) do
    for _, id in ipairs(redis.call(pick, key, SOME)) do
      if not belongs(look_up(pass, id), key) then dropped = dropped + redis.call(remove, key, id) end
    end
  end
  return dropped
end

-- The lists of a concurrency key decide whose turn it is, so turns are decided again after a
-- repair.
function M.turns(pass, now)
  for _, noted in pairs(pass.keys) do
    local x = noted.x
    local sorted, sets = implied.of_key(x, pass.settings)
    local dropped = drop_strangers(pass, sorted, "ZRANDMEMBER", "ZREM")
      + drop_strangers(pass, sets, "SRANDMEMBER", "SREM")
    for _, needs in ipairs(key_index.groups(x)) do key_index.drop(x, needs, "") end
    pass.repaired = pass.repaired + dropped
    if noted.repaired + dropped > 0 then key_turns.pass_on(x, now) end
  end
end

-- Remove capability sets without queued work, of the lanes found.
function M.capability_sets(pass)
  for _, lane in ipairs(pass.lanes) do
    local x = {tag = pass.tag, lane_id = lane}
    local key = index_key.lane(x, "capability_sets")
    for _, needs in ipairs(redis.call("SMEMBERS", key)) do
      if redis.call("EXISTS", index_key.lane(x, "eligible:" .. needs)) == 0 then
        pass.repaired = pass.repaired + redis.call("SREM", key, needs)
      end
    end
  end
end

return M
