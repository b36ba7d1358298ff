-- The index entries of an execution, by its phase.
-- @uses index_key lanes notify order writes
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

-- Suspensions without a timeout sort last.
local NO_TIMEOUT = "9999999999999"

-- Executions that need capabilities have a queue of their own, so that workers without them never
-- see it. A lane with external schedulers, which know a single queue, keeps all executions there.
function M.eligible(x)
  local needs = x.required_capabilities
  return needs and not lanes.settings(x).shared_queue and "eligible:" .. needs or "eligible"
end

function M.queue(x)
  if x.lifecycle_phase ~= "runnable" then return x.lifecycle_phase end
  local name = QUEUES[x.eligibility_state]
  return name == "eligible" and M.eligible(x) or name
end

local function queue_score(x, name, now)
  if x.eligibility_state == "eligible_now" then return order.score(x) end
  if name == "blocked:dependencies" then return x.created_at end
  return now
end

local LEAVE, ENTER = {}, {}

-- Executions that did not succeed are also listed by outcome, because people look for them.
function LEAVE.terminal(x, keys)
  writes.zrem(x, keys.terminal)
  if x.terminal_outcome ~= "success" then writes.zrem(x, keys["terminal:" .. x.terminal_outcome]) end
  if x.retention_ttl_ms then writes.zrem(x, keys.retention) end
end

-- An ended execution has no deadline.
function ENTER.terminal(x, keys)
  local ended = x.completed_at
  writes.zrem(x, index_key.of_partition(x).execution_deadline)
  writes.zadd(x, keys.terminal, ended)
  if x.terminal_outcome ~= "success" then writes.zadd(x, keys["terminal:" .. x.terminal_outcome], ended) end
  if x.retention_ttl_ms then writes.zadd(x, keys.retention, ended + x.retention_ttl_ms) end
end

function LEAVE.active(x, keys)
  local shared = index_key.of_partition(x)
  writes.zrem(x, keys.active)
  writes.zrem(x, shared.lease_expiry)
  if x.attempt_timeout_ms then writes.zrem(x, shared.attempt_timeout) end
  if x.current_worker_instance_id then writes.srem(x, index_key.worker_leases(x)) end
  notify.stopped(x)
end

function ENTER.active(x, keys)
  writes.zadd(x, keys.active, x.lease_expires_at)
  writes.zadd(x, index_key.of_partition(x).lease_expiry, x.lease_expires_at)
  writes.sadd(x, index_key.worker_leases(x))
end

function LEAVE.runnable(x, keys)
  local name = M.queue(x)
  local key = keys[name]
  writes.zrem(x, key)
  if x.required_capabilities and x.eligibility_state == "eligible_now" and name ~= "eligible" then
    writes.forget_if_empty(x, key, keys.capability_sets, x.required_capabilities)
  end
end

function ENTER.runnable(x, keys, now)
  local name = M.queue(x)
  local key = keys[name]
  if name == "delayed" then return writes.zadd_timer(x, key, x.delay_until, now) end
  writes.zadd(x, key, queue_score(x, name, now))
  if x.eligibility_state ~= "eligible_now" then return end
  if name ~= "eligible" then writes.sadd(x, keys.capability_sets, x.required_capabilities) end
  notify.entered(x, key)
end

function LEAVE.suspended(x, keys)
  writes.zrem(x, keys.suspended)
  if x.suspension_timeout_at then writes.zrem(x, index_key.of_partition(x).suspension_timeout) end
end

function ENTER.suspended(x, keys, now)
  local due = x.suspension_timeout_at
  writes.zadd(x, keys.suspended, due or NO_TIMEOUT)
  if due then writes.zadd_timer(x, index_key.of_partition(x).suspension_timeout, due, now) end
end

-- Remove the entries of its current phase.
function M.leave(x) LEAVE[x.lifecycle_phase](x, index_key.of_lane(x)) end

-- Add the entries of its phase.
function M.enter(x, now) ENTER[x.lifecycle_phase](x, index_key.of_lane(x), now) end

return M
