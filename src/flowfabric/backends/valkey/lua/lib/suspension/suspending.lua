-- Start a suspension: check and store the request, and credit the signals that came early.
-- @uses binding condition digits hash progress record reply resume_policy signal_room state suspension token vectors
--       waitpoint
local M = {}

local BEHAVIORS = {
  fail = true, cancel = true, expire = true, escalate = true, auto_resume = true,
  auto_resume_with_timeout_signal = true,
}

local USUAL = {event = "suspended", state = state.usual("suspended"), clear = record.LEASE}

function M.step(reason_code)
  local vector = vectors.SUSPENDED_BY[reason_code]
  if not vector or vector.blocking_reason == "waiting_for_signal" then return USUAL end
  return {event = "suspended", state = vector, clear = record.LEASE}
end

-- The plan of a suspension of x, or nil and a refusal. list: its waitpoints.
function M.plan(x, A, list, timeout_in_ms, now)
  if not waitpoint.is_id(A.suspension_id) then
    return nil, reply.invalid("suspension_id", "an id without ':'", A.suspension_id)
  end
  local behavior = A.timeout_behavior == "" and "fail" or A.timeout_behavior
  if not BEHAVIORS[behavior] then return nil, reply.invalid("timeout_behavior", "a known behavior", behavior) end
  local wanted, refusal = condition.parse(A.resume_condition_json, binding.keys(list))
  if refusal then return nil, refusal end
  local endless = signal_room.check_condition(x, wanted)
  if endless then return nil, endless end
  local text, unwritable = condition.text(wanted)
  if unwritable then return nil, unwritable end
  local policy_text, wrong = resume_policy.read(A.resume_policy_json)
  if wrong then return nil, wrong end
  return {
    condition = wanted, text = text, policy = policy_text, behavior = behavior,
    timeout_at = timeout_in_ms and now + timeout_in_ms or A.timeout_at,
  }
end

local function additional_json(list)
  if #list == 1 then return "" end
  local rest = {}
  for i = 2, #list do rest[i - 1] = {waitpoint_id = list[i].id, waitpoint_key = list[i].key} end
  return cjson.encode(rest)
end

-- Store it in place of the last one. Empty and usual values are not stored.
function M.open(x, now, A, list, plan, last)
  local is_unwritten = binding.is_unwritten(list)
  hash.begin()
  hash.put("suspension_id", A.suspension_id)
  hash.put("waitpoint_id", list[1].id)
  hash.put("unwritten_key", is_unwritten and list[1].key)
  hash.put("created_at", digits.of(now))
  hash.put("attempt_index", x.current_attempt_index)
  hash.put_unless("reason_code", A.reason_code, "waiting_for_signal")
  hash.put_unless("requested_by", A.requested_by, "worker")
  hash.put("timeout_at", plan.timeout_at and digits.of(plan.timeout_at))
  hash.put_unless("timeout_behavior", plan.behavior, "fail")
  hash.put("resume_condition_json", plan.text)
  hash.put("resume_policy_json", plan.policy)
  hash.put("continuation_metadata_pointer", A.continuation_metadata_pointer)
  hash.put("additional_waitpoints_json", additional_json(list))
  hash.put("idempotency_key", A.idempotency_key)
  hash.put("form", list.form)
  hash.put("lease_id", A.lease_id)
  suspension.store(x, last)
  if not is_unwritten then binding.activate(x, list, now, A.suspension_id) end
end

-- Credit the signals that pending waitpoints buffered. Answers the signals that suffice, or nil.
function M.credit(x, A, list, plan)
  local wanted, shared, enough = plan.condition, nil, nil
  for _, each in ipairs(list) do
    if each.buffered and #each.buffered > 0 then
      local w = {tag = x.tag, id = each.id, waitpoint_key = each.key}
      local tally = shared or progress.load(x, A.suspension_id, wanted, w)
      if wanted.tree then tally.new, tally.signals, shared = {}, {}, tally end
      for _, sent in ipairs(each.buffered) do progress.credit(wanted, tally, sent, w) end
      progress.save(x, wanted, tally, w)
      if tally.is_satisfied then enough = progress.satisfiers(x, wanted, tally) end
    end
  end
  return enough
end

-- The reply: the suspension and its first waitpoint, how many more there are, and those.
function M.reply(answer, suspension_id, list)
  local out = {suspension_id}
  for at, each in ipairs(list) do
    out[#out + 1], out[#out + 2], out[#out + 3] = each.id, each.key, each.minted and token.text(each.minted) or ""
    if at == 1 then out[#out + 1] = #list - 1 end
  end
  return answer(unpack(out))
end

-- Only the caller that created it under its lease gets the reply again: it holds tokens (G6). The
-- caller chooses new ids for each call; an idempotency key, which may expire, identifies the call
-- otherwise.
local function is_repeated(s, A, now)
  if A.lease_id == "" or s.lease_id ~= A.lease_id then return false end
  if s.suspension_id == A.suspension_id and s.waitpoint_id == A.waitpoint_id then return true end
  if A.idempotency_key == "" or s.idempotency_key ~= A.idempotency_key then return false end
  local ttl = A.dedup_ttl_ms or 0
  return ttl == 0 or tonumber(s.created_at) + ttl >= now
end

-- The reply of the call that opened it.
function M.again(x, s)
  local list = {}
  for i, id in ipairs(suspension.waitpoint_ids(s)) do
    local w = suspension.waitpoint(x, s, id)
    if not w then return nil end
    list[i] = {id = id, key = w.waitpoint_key, minted = token.of(w)}
  end
  return M.reply(s.satisfied_early and reply.satisfied or reply.ok, s.suspension_id, list)
end

-- The same call came before: the same reply (G3).
function M.earlier(x, s, A, now) return s and is_repeated(s, A, now) and M.again(x, s) or nil end

return M
