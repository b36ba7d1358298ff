-- The timeout of a suspension: it fails, cancels or expires its execution, resumes it, or escalates
-- to an operator.
-- @uses index reply resume signal suspension terminal transition vectors
local M = {}

local ESCALATED = {event = "escalated", clear = {"suspension_timeout_at"}, state = vectors.ESCALATED}

-- The event of the end, by behavior.
local ENDINGS = {fail = "failed", cancel = "cancelled", expire = "expired"}

-- The signal that tells the handler of the timeout; it has the id of the suspension, which no other
-- signal has (D4).
local function leave_signal(x, now, s)
  signal.record(x, now, {
    signal_id = s.suspension_id, signal_name = "__timeout__", signal_category = "timeout", source_type = "system",
    source_identity = "suspension_timeout", target_scope = "waitpoint", payload_encoding = "json", payload = "",
  }, s.waitpoint_id, "resume_condition_satisfied")
  return {s.suspension_id}
end

local function wake(x, now, s, behavior)
  local signals = behavior == "auto_resume_with_timeout_signal" and leave_signal(x, now, s) or nil
  suspension.close(x, "timed_out_auto_resume", now, {satisfiers = signals})
  return reply.ok("auto_resume", resume.wake(x, now, "timeout"))
end

-- It keeps waiting for an operator or its signals, without a timeout.
local function escalate(x, now)
  redis.call("HSET", suspension.key(x), "reason_code", "waiting_for_operator_review")
  redis.call("HDEL", suspension.key(x), "timeout_at", "timeout_behavior")
  transition.apply(x, now, ESCALATED)
  return reply.ok("escalate", "suspended")
end

local function finish(x, now, behavior)
  local ending = {
    event = ENDINGS[behavior], stream_reason = "suspension_timeout", suspension_reason = "timed_out_" .. behavior,
  }
  local set = {"failure_reason", "suspension_timeout:" .. behavior}
  if behavior == "fail" then set[3], set[4] = "failure_category", "timeout" end
  terminal.finish(x, now, ending, set)
  return reply.ok(behavior, x.public_state)
end

local function stale(x)
  if not x then return "not_found_cleaned" end
  if x.lifecycle_phase ~= "suspended" then return "not_suspended_cleaned" end
end

-- at: the execution's names; x: its record, if it has one.
function M.apply(at, x, now)
  local s = x and suspension.open_of(x)
  local why = stale(x) or not s and "no_active_suspension_cleaned"
  if why then
    index.drop(at, {"suspension_timeout"})
    return reply.ok(why)
  end
  local due = tonumber(x.suspension_timeout_at)
  if not due or due > now then return reply.ok("not_yet_due") end
  local behavior = s.timeout_behavior or "fail"
  if behavior == "escalate" then return escalate(x, now) end
  if ENDINGS[behavior] then return finish(x, now, behavior) end
  return wake(x, now, s, behavior)
end

return M
