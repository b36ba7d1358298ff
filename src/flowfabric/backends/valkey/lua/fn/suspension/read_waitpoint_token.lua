--- Read the token of an open waitpoint, for operators of the store; one is issued if none is valid.
-- @keys    core
-- @args    execution_id:id waitpoint_id:id token_seed=
-- @reply   waitpoint_id waitpoint_key waitpoint_token
-- @errors  invalid_input execution_not_found waitpoint_not_found waitpoint_closed hmac_secret_not_initialized
--          invalid_secret
-- @repeat  safe
-- @uses    clock record reply suspension token waitpoint
return function(K, A)
  local now = clock.now_ms()
  local x = record.load(K.core)

  if not x then return reply.refuse("execution_not_found") end
  local s = suspension.load(x)
  local w = suspension.waitpoint(x, s, A.waitpoint_id)
  if not w then return reply.refuse("waitpoint_not_found") end
  if w.state ~= "pending" and w.state ~= "active" then return reply.refuse("waitpoint_closed") end
  local known = token.of(w)
  if known and token.counts(x.tag, known, now) then return reply.ok(w.id, w.waitpoint_key, token.text(known)) end
  local minted, refusal = token.mint(x.tag, w.id, w.waitpoint_key, tonumber(w.created_at), A.token_seed)
  if refusal then return refusal end

  if w.is_unwritten then
    suspension.write_waitpoint(x, s, w, minted)
  else
    waitpoint.write(w, token.fields(minted))
  end

  return reply.ok(w.id, w.waitpoint_key, token.text(minted))
end
