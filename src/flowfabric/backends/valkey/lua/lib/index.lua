-- Where an execution is listed follows from its state: only this module adds or removes entries. In a batch those of
-- all executions are collected and written together (lib/writes.lua).
-- @uses index_key keyed order writes
local M = {}

local QUEUES = {
  eligible_now = "eligible",
  not_eligible_until_time = "delayed",
  blocked_by_dependencies = "blocked:dependencies",
  blocked_by_budget = "blocked:budget",
  blocked_by_quota = "blocked:quota",
  blocked_by_route = "blocked:route",
  blocked_by_operator = "blocked:operator",
  blocked_by_lane_state = "blocked:lane_state",
}

-- Where no time-out is set the entry sorts last.
local NO_TIMEOUT = 9999999999999

-- Work that needs capabilities waits in a queue of its own, so that a worker without them never sees it.
local function queue(x)
  if x.lifecycle_phase ~= "runnable" then return x.lifecycle_phase end
  local name = QUEUES[x.eligibility_state]
  if name == "eligible" and x.required_capabilities then return "eligible:" .. x.required_capabilities end
  return name
end

local function queue_score(x, name, now)
  if x.eligibility_state == "eligible_now" then return order.score(x) end
  if name == "delayed" then return x.delay_until end
  if name == "blocked:dependencies" then return x.created_at end
  return now
end

-- Ended otherwise than with success: listed by outcome, too, since these are what people look for.
local function leave_terminal(x, keys)
  writes.zrem(x, keys.terminal)
  if x.terminal_outcome ~= "success" then writes.zrem(x, keys["terminal:" .. x.terminal_outcome]) end
  if x.retention_ttl_ms then writes.zrem(x, keys.retention) end
end

local function enter_terminal(x, keys)
  local ended = x.completed_at
  writes.zadd(x, keys.terminal, ended)
  if x.terminal_outcome ~= "success" then writes.zadd(x, keys["terminal:" .. x.terminal_outcome], ended) end
  if x.retention_ttl_ms then writes.zadd(x, keys.retention, ended + x.retention_ttl_ms) end
end

local function leave_active(x, keys)
  local shared = index_key.of_partition(x)
  writes.zrem(x, keys.active)
  writes.zrem(x, shared.lease_expiry)
  if x.attempt_timeout_ms then writes.zrem(x, shared.attempt_timeout) end
  if x.current_worker_instance_id then writes.srem(x, index_key.worker_leases(x), x.id) end
  writes.stopped(x)
end

local function enter_active(x, keys)
  writes.zadd(x, keys.active, x.lease_expires_at)
  writes.zadd(x, index_key.of_partition(x).lease_expiry, x.lease_expires_at)
  writes.sadd(x, index_key.worker_leases(x), x.id)
end

local function leave_runnable(x, keys)
  local key = keys[queue(x)]
  writes.zrem(x, key)
  if x.required_capabilities and x.eligibility_state == "eligible_now" then
    writes.forget_if_empty(x, key, keys.capability_sets, x.required_capabilities)
  end
end

local function enter_runnable(x, keys, now)
  local name = queue(x)
  local key = keys[name]
  writes.zadd(x, key, queue_score(x, name, now))
  if x.eligibility_state ~= "eligible_now" then return end
  if x.required_capabilities then writes.sadd(x, keys.capability_sets, x.required_capabilities) end
  writes.wake(x, key)
end

-- Take the execution out of every place its present state put it in.
function M.leave(x)
  local keys, phase = index_key.of_lane(x), x.lifecycle_phase
  if phase == "active" then
    leave_active(x, keys)
  elseif phase == "runnable" then
    leave_runnable(x, keys)
  elseif phase == "terminal" then
    leave_terminal(x, keys)
  else
    writes.zrem(x, keys[phase])
    writes.zrem(x, index_key.of_partition(x).suspension_timeout)
  end
  if x.concurrency_key then keyed.leave(x) end
end

-- Put it where its new state belongs.
function M.enter(x, now)
  local keys, phase = index_key.of_lane(x), x.lifecycle_phase
  if phase == "active" then
    enter_active(x, keys)
  elseif phase == "runnable" then
    enter_runnable(x, keys, now)
  elseif phase == "terminal" then
    enter_terminal(x, keys)
  else
    writes.zadd(x, keys[phase], x.suspension_timeout_at or NO_TIMEOUT)
  end
  if x.concurrency_key then keyed.enter(x, order.score(x)) end
end

function M.queue_key(x) return index_key.lane(x, queue(x)) end

function M.is_queued(x) return redis.call("ZSCORE", M.queue_key(x), x.id) end

function M.requeue(x)
  writes.zadd(x, M.queue_key(x), order.score(x))
  if x.concurrency_key then keyed.enter(x, order.score(x)) end
end

function M.renew(x)
  writes.zadd(x, index_key.partition(x, "lease_expiry"), x.lease_expires_at)
  writes.zadd(x, index_key.lane(x, "active"), x.lease_expires_at)
end

-- A revoked lease is due at once, so that whoever looks for lost leases finds it (D10).
function M.revoke(x, now)
  writes.zadd(x, index_key.partition(x, "lease_expiry"), now)
  if x.current_worker_instance_id then writes.srem(x, index_key.worker_leases(x), x.id) end
end

function M.set_attempt_timeout(x, due) writes.zadd(x, index_key.partition(x, "attempt_timeout"), due) end

function M.set_deadline(x, due) writes.zadd(x, index_key.partition(x, "execution_deadline"), due) end

function M.clear_deadline(x) writes.zrem(x, index_key.partition(x, "execution_deadline")) end

-- For entries whose execution is gone or no longer in that state.
function M.drop(x, names)
  for _, name in ipairs(names) do writes.zrem(x, index_key.partition(x, name)) end
end

-- Every execution by age, and every lane that has any.
function M.register(x)
  writes.zadd(x, index_key.partition(x, "all_executions"), x.created_at)
  writes.sadd_once(x, index_key.partition(x, "lanes"), x.lane_id)
end

return M
