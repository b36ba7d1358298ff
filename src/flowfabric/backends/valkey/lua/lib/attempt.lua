-- Attempts. The current one lives in the core hash; one that ended before its execution is put away in its own hash.
-- @uses record index transition
local M = {}

local ENDED_BY_OUTCOME = {success = "ended_success", failed = "ended_failure", expired = "ended_failure"}

-- Fields of the previous attempt and of the wait before this one.
local SUPERSEDED = {
  "failure_reason", "failure_category", "attempt_started_at", "current_attempt_type", "delay_until",
  "lease_last_renewed_at", "lease_acquired_at", "next_attempt_type",
}

-- Put the current attempt away under its own key, with how it ended.
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

-- The record of a finished execution is about to be reopened: keep how its last attempt ended.
function M.archive_ended(x, now)
  if x.attempt_state ~= "attempt_terminal" then return end
  M.archive(x, ENDED_BY_OUTCOME[x.terminal_outcome] or "ended_cancelled", now)
end

local function lease_fields(x, now, owner)
  return {
    current_lease_id = owner.lease_id,
    current_lease_epoch = tonumber(x.current_lease_epoch) + 1,
    current_worker_instance_id = owner.worker_instance_id,
    lease_expires_at = now + owner.lease_ttl_ms,
  }
end

local RUNNING = {lifecycle_phase = "active", ownership_state = "leased", attempt_state = "running_attempt"}

-- The time-out its owner asks for, if any.
local function asked_timeout(owner)
  local timeout = owner.attempt_timeout_ms
  return timeout and timeout > 0 and timeout or nil
end

-- Whoever has an entry here has the field, too: without it nothing is looked for when the attempt ends.
local function start_timeout(x, now, asked)
  local timeout = asked or tonumber(x.attempt_timeout_ms or 0)
  if timeout > 0 then index.set_attempt_timeout(x, now + timeout) end
end

-- A new attempt under a new lease. owner: worker_id, worker_instance_id, lease_id, lease_ttl_ms, attempt_id,
-- attempt_timeout_ms?, and for a reclaim extra fields to set.
function M.start(x, now, owner, kind, extra)
  local set = lease_fields(x, now, owner)
  set.current_attempt_index = record.attempt_count(x)
  set.current_attempt_id = owner.attempt_id
  set.attempt_timeout_ms = asked_timeout(owner)
  if kind ~= "initial" then set.current_attempt_type = kind end
  if x.started_at then set.attempt_started_at = now else set.started_at = now end
  if extra then
    for name, value in pairs(extra) do set[name] = value end
  end
  transition.apply(x, now, {event = kind == "reclaim" and "reclaimed" or "claimed", outcome = kind,
    state = RUNNING, set = set, clear = SUPERSEDED, is_timed = true})
  start_timeout(x, now, asked_timeout(owner))
end

-- The interrupted attempt goes on under a new lease. Each stretch of running gets the whole attempt time-out
-- unless the caller knows what is left of it.
function M.resume(x, now, owner)
  local set = lease_fields(x, now, owner)
  set.lease_acquired_at = now
  if not x.attempt_timeout_ms then set.attempt_timeout_ms = asked_timeout(owner) end
  transition.apply(x, now, {event = "resumed", state = RUNNING, set = set,
    clear = {"delay_until", "lease_last_renewed_at"}, is_timed = true})
  start_timeout(x, now, asked_timeout(owner))
end

-- What kind of attempt comes next.
function M.next_kind(x)
  if x.next_attempt_type then return x.next_attempt_type end
  if x.attempt_state == "pending_retry_attempt" then return "retry" end
  if x.attempt_state == "pending_replay_attempt" then return "replay" end
  return "initial"
end

return M
