--- Close a waitpoint. Only an operator may close an active one, which ends the suspension.
-- @keys    core ~waitpoint ~pending_waitpoint_expiry
-- @args    waitpoint_id:id reason=proactive_close source=
-- @reply   status
-- @errors  invalid_input execution_not_found waitpoint_not_found waitpoint_not_open waitpoint_not_pending
-- @events  woken resumed
-- @repeat  safe
-- @uses    clock record reply resume suspension waitpoint
local CLOSED = {closed = true, expired = true}
local OPEN = {pending = true, active = true}

-- Without its waitpoint the execution would wait forever (D8).
local function is_waited_at(x, s, w)
  return x.lifecycle_phase == "suspended" and w.state == "active" and suspension.is_open(s)
    and s.suspension_id == w.suspension_id
end

return function(K, A)
  local now = clock.now_ms()
  local x = record.load(K.core)

  if not x then return reply.refuse("execution_not_found") end
  local s = suspension.load(x)
  local w = suspension.waitpoint(x, s, A.waitpoint_id)
  if not w then return reply.refuse("waitpoint_not_found") end
  if CLOSED[w.state] then return reply.ok("already_closed") end
  if not OPEN[w.state] then return reply.refuse("waitpoint_not_open", w.state) end
  local ends = is_waited_at(x, s, w)
  if ends and A.source ~= "operator_override" then return reply.refuse("waitpoint_not_pending", w.state) end

  if ends then
    suspension.close(x, "resumed", now, {fields = {[w.id] = {"close_reason", A.reason}}})
    resume.wake(x, now, "operator")
    return reply.ok()
  end
  waitpoint.close(x.tag, w.id, A.reason, now)
  waitpoint.expect_no_more(x.tag, w.id)

  return reply.ok()
end
