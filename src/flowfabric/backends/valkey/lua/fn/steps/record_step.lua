--- Record the result of a step once; a repeated call gets the recorded result, or replaces it.
-- @keys    core
-- @args    execution_id:id lease_id lease_epoch attempt_id step_name:id occurrence:nat input_digest result_encoding=
--          result= replace=
-- @reply   input_digest result_encoding result
-- @errors  invalid_input execution_not_found fence_required partial_fence_triple execution_not_active lease_revoked
--          lease_expired stale_lease
-- @repeat  safe
-- @uses    bounds clock digits lease record reply steps
local BYTES = {
  {"step_name", bounds.STEP_NAME_MAX_BYTES}, {"input_digest", bounds.STEP_INPUT_DIGEST_MAX_BYTES},
  {"result_encoding", bounds.ENCODING_MAX_BYTES}, {"result", bounds.STEP_RESULT_MAX_BYTES},
}

local function check_input(A)
  for _, bound in ipairs(BYTES) do
    local name, most = bound[1], bound[2]
    if #A[name] > most then return reply.invalid(name, "at most " .. most .. " bytes", #A[name]) end
  end
  if A.occurrence >= steps.MOST then
    return reply.invalid("occurrence", "at most " .. steps.MOST - 1, digits.of(A.occurrence))
  end
end

return function(K, A)
  local now = clock.now_ms()
  local x = record.load(K.core)

  local wrong = check_input(A)
  if wrong then return wrong end
  if not x then return reply.refuse("execution_not_found") end
  local refusal = lease.check(x, A, "", now)
  if refusal then return refusal end
  local field = steps.field(A.step_name, A.occurrence)
  local digest, encoding, result = steps.find(x, field)
  if digest and A.replace ~= "1" then return reply.duplicate(digest, encoding, result) end
  local count = steps.count(x)
  if not digest and count >= steps.MOST then
    return reply.invalid("step_count", "at most " .. steps.MOST .. " steps an execution", count + 1)
  end

  steps.put(x, now, field, not digest, A.input_digest, A.result_encoding, A.result)

  return reply.ok()
end
