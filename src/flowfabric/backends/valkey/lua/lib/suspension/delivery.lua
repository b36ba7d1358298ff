-- Deliver a signal to a waitpoint: the sender is authenticated before any other check (G6). A
-- pending waitpoint buffers the signal, an active one of the open suspension evaluates it, in one
-- step; so no wakeup is lost (D2).
-- @uses condition event expected progress record reply resume resume_policy signal signal_room suspension token
--       waitpoint
local M = {}

local BUFFERED = "buffered_for_pending_waitpoint"
local SATISFIED = "resume_condition_satisfied"
local UNMATCHED = {no_op = true, signal_ignored_not_in_condition = true, signal_ignored_matcher_failed = true}

-- Why an authentic signal cannot be delivered. The waitpoint must belong to the open suspension
-- (D1).
local function check_target(x, s, w, now, buffers)
  if x.lifecycle_phase == "terminal" then return reply.refuse("target_not_signalable", record.public_state(x)) end
  if w.state == "pending" then
    if tonumber(w.expires_at or 0) <= now then return reply.refuse("waitpoint_closed", "expired") end
    if not buffers then return reply.refuse("waitpoint_pending_use_buffer_script") end
    return nil
  end
  local waits = x.lifecycle_phase == "suspended"
  if not waits and not buffers then return reply.refuse("target_not_signalable", record.public_state(x)) end
  if not waits or w.state ~= "active" or not s or w.suspension_id ~= s.suspension_id then
    return reply.refuse("waitpoint_closed")
  end
end

-- The waitpoints that take a signal: where the execution waits for this name, else the pending
-- ones, which buffer any signal. With a key, those that have it.
local function takers(x, s, A, now)
  local found = {}
  local function add(w)
    if A.waitpoint_key == "" or w.waitpoint_key == A.waitpoint_key then found[#found + 1] = w end
  end
  if x.lifecycle_phase == "terminal" then return found end
  if s and x.lifecycle_phase == "suspended" then
    local wanted = expected.by(s)
    for _, id in ipairs(suspension.waitpoint_ids(s)) do
      local w = suspension.waitpoint(x, s, id)
      if w and w.state == "active" and condition.takes(wanted, w.waitpoint_key, A.signal_name) then add(w) end
    end
  end
  if #found > 0 then return found end
  for _, w in ipairs(waitpoint.pending_of(x, now)) do add(w) end
  return found
end

local MOST_SHOWN = 20

-- The only one of them, or nil and a refusal that lists the candidates.
local function find(x, s, A, now)
  local found, keys = takers(x, s, A, now), {}
  if #found == 0 then return nil, reply.refuse("target_not_signalable", record.public_state(x)) end
  if #found == 1 then return found[1] end
  for i = 1, math.min(#found, MOST_SHOWN) do keys[i] = found[i].waitpoint_key end
  table.sort(keys)
  return nil, reply.invalid("waitpoint_key", "the key of one waitpoint alone (" .. table.concat(keys, ", ") .. ")",
    A.waitpoint_key)
end

local function buffer(x, now, A, w)
  signal.record(x, now, A, w.id, BUFFERED)
  signal.buffer(w, A.signal_id, A.signal_maxlen)
  waitpoint.write(w, signal_room.counts_so_far(w, now, false, A))
  event.append(x, "signalled", now, BUFFERED .. " " .. A.signal_id)
  return BUFFERED
end

local function evaluate(x, now, A, w, s)
  local wanted = expected.by(s)
  local tally = progress.load(x, s.suspension_id, wanted, w)
  local effect = progress.credit(wanted, tally, signal.view(A), w)
  local at_once = effect == SATISFIED and not w.signal_count and not wanted.tree
  signal.record(x, now, A, w.id, effect)
  if not at_once then progress.save(x, wanted, tally, w) end
  if effect == SATISFIED then
    suspension.close(x, "resumed", now, {
      suspension = s, satisfiers = progress.satisfiers(x, wanted, tally), closer = A.signal_id,
      fields = not w.is_unwritten and {[w.id] = signal_room.counts(w, now, true)}, at_once = at_once and w.id,
    })
    x.told = {waitpoint_id = w.id, waitpoint_key = w.waitpoint_key, signal = A, at = now}
    local delay_ms = A.resume_delay_ms or resume_policy.delay(s.resume_policy_json)
    resume.wake(x, now, "signal " .. A.signal_id, delay_ms)
  else
    if w.is_unwritten then suspension.write_waitpoint(x, s, w) end
    waitpoint.write(w, signal_room.counts_so_far(w, now, not UNMATCHED[effect], A))
    event.append(x, "signalled", now, effect .. " " .. A.signal_id)
  end
  return effect
end

-- Deliver a signal of an authorized sender, once. place: the owner of the idempotency key.
-- target_of: answers the waitpoint for the open suspension, or a refusal.
local function accept(x, A, now, place, target_of)
  local earlier, taken = signal.earlier(x, place, A)
  if earlier then return reply.duplicate(earlier) end
  local s = suspension.open_of(x)
  local w, nowhere = target_of(s)
  local refusal = taken or nowhere or signal_room.check(x, w, A) or expected.check_answer(s, w, A)
  if refusal then return refusal end

  signal.remember(x, place, A)
  local effect = w.state == "pending" and buffer(x, now, A, w) or evaluate(x, now, A, w, s)
  return reply.ok(A.signal_id, effect)
end

-- To a waitpoint, with its token. A: the arguments. buffers: whether a pending waitpoint may buffer
-- it.
function M.deliver(x, A, now, buffers)
  if not x then return reply.refuse("execution_not_found") end
  local w = waitpoint.of(x, A.waitpoint_id)
  local refusal = signal.check(A) or token.check(x.tag, A.waitpoint_token, w, now)
  if refusal then return refusal end
  return accept(x, A, now, w.id, function(s)
    return w, check_target(x, s, w, now, buffers) or expected.check_name(s, w, A)
  end)
end

-- To the waitpoint that takes it, for trusted callers without a token. A replay starts without
-- idempotency keys.
function M.send(x, A, now)
  if not x then return reply.refuse("execution_not_found") end
  local refusal = signal.check(A)
  if refusal then return refusal end
  local life = A.idempotency_key ~= "" and x.id .. "@" .. (x.replay_count or 0)
  return accept(x, A, now, life, function(s) return find(x, s, A, now) end)
end

return M
