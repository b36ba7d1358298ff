-- Attempts. The current attempt lives in the core hash; an attempt that ended before its execution
-- is archived in its own hash.
-- @uses digits index record state transition
local M = {}

local ENDED_BY_OUTCOME = {success = "ended_success", failed = "ended_failure", expired = "ended_failure"}

-- Fields of the previous attempt, and of the wait before this one.
local SUPERSEDED = {
  "failure_reason", "failure_category", "attempt_started_at", "current_attempt_type", "delay_until",
  "lease_last_renewed_at", "lease_acquired_at", "next_attempt_type", "claim_grant_until",
}

-- Archive the current attempt under its own key, with how it ended.
function M.archive(x, ended_as, now, reason, category)
  local fields = {
    "attempt_id", x.current_attempt_id, "attempt_state", ended_as, "attempt_type", x.current_attempt_type or "initial",
    "started_at", x.attempt_started_at or x.started_at or now, "ended_at", x.completed_at or now,
    "lease_epoch", x.current_lease_epoch,
  }
  local function add(name, value)
    if value and value ~= "" then
      fields[#fields + 1] = name
      fields[#fields + 1] = value
    end
  end
  add("worker_instance_id", x.current_worker_instance_id)
  add("failure_reason", reason or x.failure_reason)
  add("failure_category", category or x.failure_category)
  redis.call("HSET", record.attempt_key(x, x.current_attempt_index), unpack(fields))
end

-- Archive the last attempt of a finished execution that is about to be reopened.
function M.archive_ended(x, now)
  if x.attempt_state ~= "attempt_terminal" then return end
  M.archive(x, ENDED_BY_OUTCOME[x.terminal_outcome] or "ended_cancelled", now)
end

local RUNNING = state.usual("active")
local FIRST = {
  event = "claimed", from = state.usual("runnable"), state = RUNNING, clear = {"delay_until", "claim_grant_until"},
  is_timed = true,
}
local CLAIMED = {event = "claimed", state = RUNNING, clear = SUPERSEDED, is_timed = true}
local RECLAIMED = {event = "reclaimed", state = RUNNING, clear = SUPERSEDED, is_timed = true}
local RESUMED = {
  event = "resumed", state = RUNNING, is_timed = true,
  clear = {"delay_until", "lease_last_renewed_at", "claim_grant_until"},
}

local function add(set, name, value)
  local n = #set
  set[n + 1], set[n + 2] = name, value
end

-- The attempt timeout that the owner asks for, if any.
local function asked_timeout(owner)
  local timeout = owner.attempt_timeout_ms
  return timeout and timeout > 0 and timeout or nil
end

-- An execution with an entry in this index has the field, too; without the field the end of the
-- attempt removes no entry.
local function start_timeout(x, now, asked)
  local timeout = asked or tonumber(x.attempt_timeout_ms)
  if timeout and timeout > 0 then index.set_attempt_timeout(x, now + timeout) end
end

-- Does a plain record start for the first time? Its start does not change a running flow.
local function is_plain_first(x, kind)
  return x.is_plain and kind == "initial" and x.current_lease_epoch == "0"
    and (not x.flow_id or x.flow_state == "running")
end

local function start_plain(x, now, owner)
  local worker, expires_at = owner.worker_instance_id, digits.of(now + owner.lease_ttl_ms)
  x.current_lease_id, x.current_lease_epoch, x.current_worker_instance_id = owner.lease_id, "1", worker
  x.lease_expires_at, x.current_attempt_id, x.current_attempt_index = expires_at, owner.attempt_id, "0"
  x.started_at = digits.of(now)
  if x.claim_grant_until then
    redis.call("HDEL", x.core, "claim_grant_until")
    x.claim_grant_until = nil
  end
  transition.apply_usual(x, now, FIRST, "initial", "current_lease_id", owner.lease_id,
    "current_lease_epoch", "1", "current_worker_instance_id", worker, "lease_expires_at", expires_at,
    "current_attempt_id", owner.attempt_id, "started_at", x.started_at)
end

-- Start a new attempt under a new lease. owner: worker_id, worker_instance_id, lease_id,
-- lease_ttl_ms, attempt_id and attempt_timeout_ms?. lost: the number of lost leases, when this
-- attempt takes one over. x.newborn: the record is not written yet.
function M.start(x, now, owner, kind, lost)
  local asked = asked_timeout(owner)
  if not asked and not lost and not x.newborn and is_plain_first(x, kind) then return start_plain(x, now, owner) end
  local set = {
    "current_lease_id", owner.lease_id, "current_lease_epoch", x.current_lease_epoch + 1,
    "current_worker_instance_id", owner.worker_instance_id, "lease_expires_at", now + owner.lease_ttl_ms,
    "current_attempt_id", owner.attempt_id,
    x.started_at and "attempt_started_at" or "started_at", now,
  }
  local index = record.attempt_count(x)
  if index > 0 then add(set, "current_attempt_index", index) else x.current_attempt_index = "0" end
  if asked then add(set, "attempt_timeout_ms", asked) end
  if lost then add(set, "lease_reclaim_count", lost) end
  if x.newborn then
    transition.apply_first(x, now, FIRST, set, kind)
  elseif kind == "initial" then
    transition.apply(x, now, FIRST, set, kind)
  else
    add(set, "current_attempt_type", kind)
    transition.apply(x, now, kind == "reclaim" and RECLAIMED or CLAIMED, set, kind)
  end
  start_timeout(x, now, asked)
end

-- Resume the interrupted attempt under a new lease. Each stretch of running gets the whole attempt
-- timeout, unless the caller knows the rest of it. woken: {step, outcome} when the suspension ends
-- in the same step; a suspended execution has no fields that a resume would drop.
function M.resume(x, now, owner, woken)
  local asked = asked_timeout(owner)
  local set = {
    "current_lease_id", owner.lease_id, "current_lease_epoch", x.current_lease_epoch + 1,
    "current_worker_instance_id", owner.worker_instance_id, "lease_expires_at", now + owner.lease_ttl_ms,
    "lease_acquired_at", now,
  }
  if asked and not x.attempt_timeout_ms then add(set, "attempt_timeout_ms", asked) end
  if woken then
    transition.apply_both(x, now, woken.step, woken.outcome, RESUMED, set)
  else
    transition.apply(x, now, RESUMED, set)
  end
  start_timeout(x, now, asked)
end

-- The kind of the next attempt.
function M.next_kind(x)
  if x.next_attempt_type then return x.next_attempt_type end
  if x.attempt_state == "pending_retry_attempt" then return "retry" end
  if x.attempt_state == "pending_replay_attempt" then return "replay" end
  return "initial"
end

return M
