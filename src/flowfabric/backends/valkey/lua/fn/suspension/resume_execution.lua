--- Resume a suspended execution for an operator, whatever it waits for: suspended -> waiting, or delayed.
-- @keys    core ~suspension_current ~waitpoint ~waitpoint_signals ~suspension_timeout ~eligible ~delayed ~suspended
-- @args    execution_id:id trigger_type=signal resume_delay_ms:nat=0 suspension_id=
-- @reply   public_state
-- @errors  invalid_input execution_not_found execution_not_suspended
-- @events  woken resumed
-- @repeat  unsafe
-- @uses    clock record reply resume suspension
-- A caller may name the suspension: another one may be open by now.
local function is_meant(s, A) return s and (A.suspension_id == "" or A.suspension_id == s.suspension_id) end

return function(K, A)
  local now = clock.now_ms()
  local x = record.load(K.core)

  if not x then return reply.refuse("execution_not_found") end
  local s = x.lifecycle_phase == "suspended" and suspension.open_of(x)
  if not is_meant(s, A) then
    return reply.refuse("execution_not_suspended", record.public_state(x), s and s.suspension_id or "")
  end

  suspension.close(x, "resumed", now)
  return reply.ok(resume.wake(x, now, A.trigger_type, A.resume_delay_ms))
end
