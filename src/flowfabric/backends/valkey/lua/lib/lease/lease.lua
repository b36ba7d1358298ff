-- The fence (lease_id, lease_epoch, attempt_id) and its checks (G2).
-- @uses record reply
local M = {}

-- The state of an execution without a running attempt: enough to recognise one's own earlier call
-- (G3).
function M.not_active(x)
  return reply.refuse("execution_not_active", x.terminal_outcome, x.current_lease_epoch, x.lifecycle_phase,
    x.current_attempt_id or "", x.attempt_state, x.delay_until or "", record.public_state(x))
end

-- All three parts, or none with an operator's override, whose fence is filled in. A refusal or nil.
local function complete_fence(x, fence, source)
  local lease_id, epoch, attempt_id = fence.lease_id, fence.lease_epoch, fence.attempt_id
  if lease_id ~= "" or epoch ~= "" or attempt_id ~= "" then return reply.refuse("partial_fence_triple") end
  if source ~= "operator_override" then return reply.refuse("fence_required") end
  fence.lease_id, fence.lease_epoch = x.current_lease_id or "", x.current_lease_epoch
  fence.attempt_id = x.current_attempt_id or ""
end

-- The lease is held and has not expired; nothing is written either way (D11).
function M.check_held(x, now)
  if x.lifecycle_phase ~= "active" then return M.not_active(x) end
  if x.ownership_state == "lease_revoked" then return reply.refuse("lease_revoked") end
  if x.ownership_state ~= "leased" or tonumber(x.lease_expires_at or 0) <= now then
    return reply.refuse("lease_expired")
  end
end

function M.is_owner(x, fence)
  return fence.lease_id == x.current_lease_id and fence.lease_epoch == x.current_lease_epoch
    and fence.attempt_id == x.current_attempt_id
end

-- For calls that know the lease but not always the attempt.
function M.is_holder(x, fence)
  return fence.lease_id == x.current_lease_id and fence.lease_epoch == x.current_lease_epoch
    and (fence.attempt_id == "" or fence.attempt_id == x.current_attempt_id)
end

-- The whole guard of a fenced call, in the order the wire promises.
function M.check(x, fence, source, now)
  if fence.lease_id == "" or fence.lease_epoch == "" or fence.attempt_id == "" then
    local incomplete = complete_fence(x, fence, source)
    if incomplete then return incomplete end
  end
  local refusal = M.check_held(x, now)
  if refusal then return refusal end
  if not M.is_owner(x, fence) then return reply.refuse("stale_lease") end
end

return M
