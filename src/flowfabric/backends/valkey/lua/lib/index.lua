-- Where an execution is listed follows from its state: this is the only module that adds or removes entries.
-- In a batch the entries of all executions are collected and written together (lib/writes.lua).
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
  if name == "active" then return x.lease_expires_at end
  if name == "terminal" then return x.completed_at end
  if x.eligibility_state == "eligible_now" then return order.score(x) end
  if name == "delayed" then return x.delay_until end
  if name == "blocked:dependencies" then return x.created_at end
  if name == "suspended" then return x.suspension_timeout_at or NO_TIMEOUT end
  return now
end

-- Ended otherwise than with success: listed by outcome, too, since these are what people look for.
local function leave_terminal(x, keys)
  if x.terminal_outcome ~= "success" then writes.zrem(x, keys["terminal:" .. x.terminal_outcome]) end
  if x.retention_ttl_ms then writes.zrem(x, keys.retention) end
end

local function enter_terminal(x, keys)
  if x.terminal_outcome ~= "success" then writes.zadd(x, keys["terminal:" .. x.terminal_outcome], x.completed_at) end
  if x.retention_ttl_ms then writes.zadd(x, keys.retention, x.completed_at + x.retention_ttl_ms) end
end

local function leave_active(x)
  local keys = index_key.of_partition(x)
  writes.stopped(x)
  writes.zrem(x, keys.lease_expiry)
  if x.attempt_timeout_ms then writes.zrem(x, keys.attempt_timeout) end
  if x.current_worker_instance_id then writes.srem(x, index_key.worker_leases(x), x.id) end
end

-- Take the execution out of every place its present state put it in.
function M.leave(x)
  local keys, name, phase = index_key.of_lane(x), queue(x), x.lifecycle_phase
  local key = keys[name]
  writes.zrem(x, key)
  if x.concurrency_key then keyed.leave(x) end
  if phase == "active" then
    leave_active(x)
  elseif phase == "suspended" then
    writes.zrem(x, index_key.partition(x, "suspension_timeout"))
  elseif phase == "terminal" then
    leave_terminal(x, keys)
  elseif x.required_capabilities and x.eligibility_state == "eligible_now" then
    writes.forget_if_empty(x, key, keys.capability_sets, x.required_capabilities)
  end
end

-- Put it where its new state belongs.
function M.enter(x, now)
  local keys, name = index_key.of_lane(x), queue(x)
  local key = keys[name]
  writes.zadd(x, key, queue_score(x, name, now))
  if x.concurrency_key then keyed.enter(x, order.score(x)) end
  if name == "active" then
    writes.zadd(x, index_key.of_partition(x).lease_expiry, x.lease_expires_at)
    writes.sadd(x, index_key.worker_leases(x), x.id)
  elseif name == "terminal" then
    enter_terminal(x, keys)
  elseif name == "suspended" then
    if x.suspension_timeout_at then
      writes.zadd(x, index_key.partition(x, "suspension_timeout"), x.suspension_timeout_at)
    end
  elseif x.eligibility_state == "eligible_now" then
    if x.required_capabilities then writes.sadd(x, keys.capability_sets, x.required_capabilities) end
    writes.wake(x, key)
  end
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

function M.attempt_timeout(x) return redis.call("ZSCORE", index_key.partition(x, "attempt_timeout"), x.id) end

function M.deadline(x) return redis.call("ZSCORE", index_key.partition(x, "execution_deadline"), x.id) end

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
