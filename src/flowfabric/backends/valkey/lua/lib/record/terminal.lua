-- Every execution ends here (G7): complete, fail, cancel, expire, skip and every timeout.
-- @uses advance completions digits flow only_edge state stream suspension transition upcalls vectors watching
local M = {}

local CLEARED = {
  "current_lease_id", "lease_acquired_at", "lease_expires_at", "lease_last_renewed_at",
  "delay_until", "current_suspension_id", "current_waitpoint_id", "suspension_timeout_at",
}

-- The last step by its event: for an execution whose attempt ends with it, and for one without an
-- attempt.
local ENDED, UNATTEMPTED = {}, {}

local function declare(event, outcome)
  local with = outcome == "success" and state.usual("terminal") or vectors.ENDED[event]
  ENDED[event] = {event = event, state = with, clear = CLEARED, is_timed = true}
  UNATTEMPTED[event] = {event = event, state = vectors.UNATTEMPTED[event], clear = CLEARED, is_timed = true}
end

declare("completed", "success")
declare("failed", "failed")
declare("cancelled", "cancelled")
declare("expired", "expired")
declare("skipped", "skipped")

ENDED.completed.from = state.usual("active")
local SUCCEEDED = ENDED.completed

-- ending: event, stream_reason, suspension_reason?, quiet? (no completion message). set: more
-- fields to set, names and values in turn.
function M.finish(x, now, ending, set)
  local run = x.flow_id and advance.begin(x, now)
  local interrupted = x.attempt_state == "running_attempt" or x.attempt_state == "attempt_interrupted"
  local step = (interrupted and ENDED or UNATTEMPTED)[ending.event]
  local outcome = step.state.terminal_outcome
  if interrupted and x.stream_attempt_index then stream.close(x, x.current_attempt_index, ending.stream_reason, now) end
  if x.lifecycle_phase == "suspended" then suspension.close(x, ending.suspension_reason or outcome, now) end
  set = set or {}
  local n = #set
  set[n + 1], set[n + 2] = "completed_at", now
  transition.apply(x, now, step, set, outcome)
  if x.watched then watching.ended(x, now) end
  if x.flow_id and not ending.quiet then completions.tell(x, outcome) end
  if run then advance.ended(run, x, outcome) end
end

upcalls.finish = M.finish

-- The fields to write; the list serves one execution after the other.
local fields = {"completed_at"}

-- A plain record loses its lease and nothing else. satisfies: its end satisfies its only edge,
-- whose field is written with it.
local function succeed_plain(x, now, encoding, satisfies)
  local at = digits.of(now)
  redis.call("HDEL", x.core, "current_lease_id", "lease_expires_at")
  x.completed_at, x.current_lease_id, x.lease_expires_at = at, nil, nil
  local n = 2
  fields[2] = at
  if encoding ~= "" then fields[3], fields[4], n = "result_encoding", encoding, 4 end
  if satisfies then fields[n + 1], fields[n + 2], n = "only_edge", x.only_edge, n + 2 end
  transition.apply_usual(x, now, SUCCEEDED, "success", unpack(fields, 1, n))
end

local COMPLETED = {event = "completed", stream_reason = "attempt_success"}

function M.succeed(x, now, encoding)
  if not x.is_plain or x.lifecycle_phase ~= "active" then
    return M.finish(x, now, COMPLETED, {"result_encoding", encoding})
  end
  local run = x.flow_id and advance.begin(x, now)
  local down = run and x.only_edge and not flow.is_closed(x.flow) and only_edge.satisfy(x)
  succeed_plain(x, now, encoding, down)
  if not x.flow_id then return end
  completions.tell(x, "success")
  if not run then return end
  if not down then flow.add(x.flow, "moving_count", -1) end
  advance.ended(run, x, "success", down)
end

return M
