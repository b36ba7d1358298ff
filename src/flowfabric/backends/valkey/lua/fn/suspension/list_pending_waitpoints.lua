--- List the open waitpoints of an execution by id, without their tokens.
-- @keys    core
-- @args    execution_id:id after limit:pos
-- @reply   more reached_id waitpoints form
-- @errors  invalid_input execution_not_found
-- @flags   no-writes
-- @repeat  safe
-- @uses    clock condition record reply suspension token waitpoint
local MAX_PAGE = 1000

-- The secret that signed the token, and the token's fingerprint, which is empty if the token is no longer valid.
local function token_of(x, w, now)
  local minted = token.of(w)
  if not minted then return "", "" end
  return minted.kid, token.counts(x.tag, minted, now) and token.fingerprint(minted) or ""
end

local function entry(x, w, s, now)
  local names = {}
  if w.state == "active" and s then
    names = condition.names(condition.stored(s.resume_condition_json), w.waitpoint_key)
  end
  local kid, fingerprint = token_of(x, w, now)
  return {
    w.id, w.waitpoint_key, w.state, w.created_at, w.state == "active" and (w.activated_at or w.created_at) or "",
    w.expires_at or s and s.timeout_at or "", kid, fingerprint, w.signal_count or "0", names,
  }
end

return function(K, A)
  local now, x = clock.now_ms(), record.load(K.core)

  if A.limit > MAX_PAGE then return reply.invalid("limit", "at most " .. MAX_PAGE, A.limit) end
  if not x then return reply.refuse("execution_not_found") end

  local ids, s, out, reached, looked = redis.call("SMEMBERS", waitpoint.list_key(x)), suspension.open_of(x), {}, "", 0
  local form = s and s.form or ""
  if s and s.unwritten_key then ids[#ids + 1] = s.waitpoint_id end
  table.sort(ids)
  for _, id in ipairs(ids) do
    if id > A.after then
      -- Closed waitpoints are skipped, so a page also ends after reading MAX_PAGE of them.
      if #out == A.limit or looked == MAX_PAGE then return {1, "OK", "1", reached, out, form} end
      local w = suspension.waitpoint(x, s, id)
      if w and (w.state == "pending" or w.state == "active") then out[#out + 1] = entry(x, w, s, now) end
      reached, looked = id, looked + 1
    end
  end
  return {1, "OK", "0", reached, out, form}
end
