-- The indexes of an execution follow from its state; only this module adds or removes entries. A
-- batch collects the entries of all executions and writes them together (lib/base/writes.lua).
-- @uses index_key index_rules key_index order writes
local M = {}

-- Remove the entries of its current state.
function M.leave(x)
  index_rules.leave(x)
  if x.concurrency_key then key_index.leave(x) end
end

-- Add the entries of its new state.
function M.enter(x, now)
  index_rules.enter(x, now)
  if x.concurrency_key then key_index.enter(x, order.score(x)) end
end

function M.queue_key(x) return index_key.lane(x, index_rules.queue(x)) end

function M.is_queued(x) return redis.call("ZSCORE", M.queue_key(x), x.id) end

function M.requeue(x)
  writes.zadd(x, M.queue_key(x), order.score(x))
  if x.concurrency_key then key_index.enter(x, order.score(x)) end
end

-- Move it from a queue that it no longer belongs in, since its lane was configured.
function M.move_from(x, name)
  if index_rules.queue(x) == name then return M.requeue(x) end
  local key = index_key.lane(x, name)
  redis.call("ZREM", key, x.id)
  if name ~= "eligible" then
    writes.forget_if_empty(x, key, index_key.lane(x, "capability_sets"), x.required_capabilities)
  end
  M.enter(x, x.created_at)
end

function M.renew(x)
  writes.zadd(x, index_key.partition(x, "lease_expiry"), x.lease_expires_at)
  writes.zadd(x, index_key.lane(x, "active"), x.lease_expires_at)
end

-- A revoked lease is due at once, so that the scan for lost leases finds it (D10).
function M.revoke(x, now)
  writes.zadd(x, index_key.partition(x, "lease_expiry"), now)
  if x.current_worker_instance_id then writes.srem(x, index_key.worker_leases(x), x.id) end
end

function M.set_attempt_timeout(x, due) writes.zadd(x, index_key.partition(x, "attempt_timeout"), due) end

function M.set_deadline(x, due, now)
  writes.zadd_timer(x, index_key.partition(x, "execution_deadline"), due, now)
end

function M.clear_deadline(x) writes.zrem(x, index_key.partition(x, "execution_deadline")) end

-- Drop entries whose execution is gone or in another state.
function M.drop(x, names)
  for _, name in ipairs(names) do writes.zrem(x, index_key.partition(x, name)) end
end

-- Every execution by age, and every lane that has any.
function M.register(x)
  writes.zadd(x, index_key.partition(x, "all_executions"), x.created_at)
  writes.sadd_once(x, index_key.partition(x, "lanes"), x.lane_id)
end

return M
