--- Create a waitpoint before the wait, so that its token can be handed out and early signals are buffered.
-- @keys    core ~waitpoint ~pending_waitpoint_expiry ~hmac_secrets
-- @args    execution_id:id attempt_index:nat waitpoint_id:id waitpoint_key:id expires_at:nat?
--          lease_id= lease_epoch= attempt_id= expires_in_ms:pos? token_seed=
-- @reply   waitpoint_id waitpoint_key waitpoint_token
-- @errors  invalid_input execution_not_found execution_not_active no_active_lease lease_revoked lease_expired
--          partial_fence_triple stale_lease waitpoint_already_exists hmac_secret_not_initialized invalid_secret
-- @repeat  safe
-- @uses    clock digits lease record reply token waitpoint
local function is_fenced(A) return A.lease_id ~= "" or A.lease_epoch ~= "" or A.attempt_id ~= "" end

-- The wire requires only the attempt; a complete fence is checked as well.
local function check_holder(x, A, now)
  if is_fenced(A) then
    local refusal = lease.check(x, A, "", now)
    if refusal then return refusal end
  end
  if x.lifecycle_phase ~= "active" then return lease.not_active(x) end
  if x.ownership_state ~= "leased" then return reply.refuse("no_active_lease") end
  if tonumber(x.current_attempt_index) ~= A.attempt_index then return reply.refuse("stale_lease") end
end

local function check_input(A, expires_at, now)
  if not waitpoint.is_id(A.waitpoint_id) then
    return reply.invalid("waitpoint_id", "an id without ':'", A.waitpoint_id)
  end
  if not expires_at or expires_at <= now then
    return reply.invalid("expires_at", "a time to come", expires_at and digits.of(expires_at) or "")
  end
end

-- The lease holder repeats its call.
local function is_repeated(x, A, w)
  return is_fenced(A) and w.execution_id == x.id and w.waitpoint_key == A.waitpoint_key and w.state == "pending"
    and token.of(w)
end

return function(K, A)
  local now = clock.now_ms()
  local x = record.load(K.core)
  local expires_at = A.expires_in_ms and now + A.expires_in_ms or A.expires_at

  if not x then return reply.refuse("execution_not_found") end
  local refusal = check_holder(x, A, now) or check_input(A, expires_at, now)
  if refusal then return refusal end
  local w = waitpoint.load(x.tag, A.waitpoint_id)
  local known = w and is_repeated(x, A, w)
  if known then return reply.duplicate(A.waitpoint_id, A.waitpoint_key, token.text(known)) end
  if w then return reply.refuse("waitpoint_already_exists") end
  local minted, no_secret = token.mint(x.tag, A.waitpoint_id, A.waitpoint_key, now, A.token_seed)
  if no_secret then return no_secret end

  waitpoint.create(x, now, A.waitpoint_id, A.waitpoint_key, minted,
    {"state", "pending", "expires_at", digits.of(expires_at)})
  waitpoint.expect(x.tag, A.waitpoint_id, expires_at)

  return reply.ok(A.waitpoint_id, A.waitpoint_key, token.text(minted))
end
