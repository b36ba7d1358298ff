-- The guards that all claims share.
-- @uses admission capability grant record reply
local M = {}

local function not_leaseable(x, why) return reply.refuse("execution_not_leaseable", why or record.public_state(x)) end

-- May a new attempt start? The grant is checked elsewhere.
function M.check_fresh(x)
  if x.lifecycle_phase ~= "runnable" then return not_leaseable(x) end
  if x.ownership_state ~= "unowned" then return reply.refuse("lease_conflict") end
  if x.eligibility_state ~= "eligible_now" then return not_leaseable(x) end
  if x.terminal_outcome ~= "none" then return not_leaseable(x) end
  if x.attempt_state == "running_attempt" then return reply.refuse("active_attempt_exists") end
  if x.attempt_state == "attempt_interrupted" then return reply.refuse("use_claim_resumed_execution") end
  local obstacle = admission.obstacle(x, false)
  if obstacle then return not_leaseable(x, obstacle) end
  return admission.check_limits(x)
end

-- May the interrupted attempt resume? Unlike the first version of the wire, only when it is
-- eligible (D22).
function M.check_resumed(x)
  if x.lifecycle_phase ~= "runnable" then return not_leaseable(x) end
  if x.attempt_state ~= "attempt_interrupted" then return reply.refuse("not_a_resumed_execution") end
  if x.eligibility_state ~= "eligible_now" then return not_leaseable(x) end
  local obstacle = admission.obstacle(x, true)
  if obstacle then return not_leaseable(x, obstacle) end
  return admission.check_limits(x)
end

-- A shared queue also holds executions whose capabilities this worker lacks.
function M.needs_more(x, offered, kinds)
  return x and x.required_capabilities and capability.check(x.required_capabilities, offered, kinds) ~= nil
end

-- Does the record say that the execution is queued?
function M.is_queued(x) return x and x.lifecycle_phase == "runnable" and x.eligibility_state == "eligible_now" end

-- The reason why an execution that was found in a queue or named cannot be claimed, limits apart;
-- nil when it can.
function M.check_found(x, now)
  if not x then return reply.refuse("execution_not_found") end
  if x.lifecycle_phase ~= "runnable" then return reply.refuse("execution_not_eligible", record.public_state(x)) end
  if x.eligibility_state ~= "eligible_now" then
    return reply.refuse("execution_not_in_eligible_set", record.public_state(x))
  end
  if x.claim_grant_until and grant.is_out(x, now) then return reply.refuse("grant_already_exists") end
  local obstacle = admission.obstacle(x, x.attempt_state == "attempt_interrupted")
  if obstacle then return reply.refuse("execution_not_eligible", obstacle) end
end

-- The policy snapshot of the attempt as flat fields: one per top-level member, nested values as
-- JSON.
function M.attempt_policy(text)
  if text == "" or text == "null" then return {} end
  local ok, object = pcall(cjson.decode, text)
  if not ok or type(object) ~= "table" then return nil, reply.invalid("attempt_policy_json", "a JSON object", text) end
  local fields = {}
  for name, value in pairs(object) do
    fields[#fields + 1] = name
    fields[#fields + 1] = type(value) == "table" and cjson.encode(value) or tostring(value)
  end
  return fields
end

function M.store_attempt_policy(x, fields)
  if #fields == 0 then return end
  redis.call("HSET", record.attempt_key(x, x.current_attempt_index) .. ":policy", unpack(fields))
end

return M
