-- Accept executions: create for one, submit for many.
-- @uses content event index key_turns missed_key parked_handoff record replace reply state tags tenant update writes
local M = {}

-- The modes for an idempotency key that is taken; true: the mode needs a key.
local MODES = {
  return_existing = false, reject = false, replace_while_waiting = true, debounce = true, until_success = true,
}

-- The id that was accepted before, under this idempotency key or this id.
local function known_id(x, idempotency)
  local existing = idempotency and redis.call("GET", idempotency)
  if existing then return existing end
  local accepted = x.writes and x.writes.accepted
  if accepted then return accepted[x.id] end
  return redis.call("EXISTS", x.core) == 1 and x.id or nil
end

-- Most batches hold only new ids, which one EXISTS confirms; then only ids of the batch itself can
-- repeat.
function M.look_ahead(collected, cores)
  if #cores > 0 and redis.call("EXISTS", unpack(cores)) == 0 then collected.accepted = {} end
end

-- A tenant creates executions in its own namespaces, under free ids; the refusal says no more than
-- that. A refusal or nil.
local function check_scope(x, A, existing)
  local wrong = tenant.check_own(A.namespace)
  if wrong or not existing then return wrong end
  local collected = x.writes or x.beside
  if collected and collected.accepted and collected.accepted[existing] then return nil end  -- created by this batch
  if record.load("ff:exec:" .. x.tag .. ":" .. existing .. ":core") then return nil end
  return reply.invalid("execution_id", "an id that is not taken", x.id)
end

local function check_mode(A, idempotency)
  local mode = A.on_duplicate
  if MODES[mode] == nil then return reply.invalid("on_duplicate", "a known mode", mode) end
  if MODES[mode] and not idempotency then return reply.invalid("idempotency_key", "one with " .. mode, "") end
  if mode == "debounce" and not A.delay_ms and not A.delay_until then
    return reply.invalid("delay_ms", "a delay with debounce", "")
  end
end

-- The idempotency key as the record stores it; "" when it is not kept.
local function remember(x, idempotency, A)
  if not A.dedup_ttl_ms or A.dedup_ttl_ms <= 0 then return "" end
  redis.call("SET", idempotency, x.id, "PX", A.dedup_ttl_ms)
  return idempotency:sub(#x.tag + 10)
end

local function store_parts(x, new)
  if new.payload ~= "" then writes.set(x, x.base .. ":payload", new.payload) end
  if new.policy ~= "" then writes.set(x, x.base .. ":policy", new.policy) end
  if #new.labels > 0 then tags.write(x, new.labels) end
end

-- An execution with a concurrency key may have to wait from the start. It writes at once, because
-- others of the batch may share its key.
local function admit(x, fields, wanted, now)
  x.beside, x.writes = x.writes, nil
  if wanted.eligibility_state ~= "eligible_now" then return wanted end
  local candidate = {tag = x.tag, beside = x.beside}
  for i = 1, #fields, 2 do
    if fields[i + 1] ~= "" then candidate[fields[i]] = fields[i + 1] end
  end
  return key_turns.admit(candidate, now, wanted, fields)
end

-- Write the record and its index entries. A parked claim may take the execution at once: it starts
-- in this step.
local function store(x, new, vector, now)
  if vector.is_usual and (x.is_alone or not x.writes) then
    record.take_fields(x, new.fields)
    local taker = parked_handoff.taker(x)
    if taker then
      record.take_over(x, vector)
      x.lifecycle_phase, x.current_lease_epoch = vector.lifecycle_phase, "0"
      x.newborn = {fields = new.fields, payload = new.payload, line = event.line(x, "created")}
      return parked_handoff.give(x, now, taker)
    end
  end
  update.change(x, now, vector, new.fields, nil, true)
  index.enter(x, now)
  event.append_new(x, "created", now)
end

-- Write a new execution. idempotency: its key, or nil. new: from lib/record/content.lua.
function M.accept(x, idempotency, A, new, now)
  local fields, vector = new.fields, new.state
  if idempotency then
    local n = #fields
    fields[n + 1], fields[n + 2] = "idempotency_key", remember(x, idempotency, A)
  end
  if new.concurrency_key then vector = admit(x, fields, vector, now) end
  store(x, new, vector, now)
  store_parts(x, new)
  index.register(x)
  if new.deadline then index.set_deadline(x, new.deadline, now) end
  if x.concurrency_key then key_turns.pass_on(x, now) end
  local collected = x.writes or x.beside
  if collected and collected.accepted then collected.accepted[x.id] = x.id end
  return reply.ok(x.id, vector.public_state or state.public(vector.lifecycle_phase, vector.eligibility_state))
end

-- The idempotency key belongs to an execution that may still be waiting.
local function replace_waiting(x, idempotency, A, existing, now)
  local other = record.load("ff:exec:" .. x.tag .. ":" .. existing .. ":core")
  if not other or not replace.is_open(other) then return reply.duplicate(existing) end
  if other.lane_id ~= A.lane_id then return reply.invalid("lane_id", "that of " .. existing, A.lane_id) end
  local new, refusal = content.read(A, now, other.created_at)
  if refusal then return refusal end

  -- Earlier items of the batch may have created or moved it.
  if x.writes then writes.write_through(x.writes) end
  other.beside = x.writes
  remember(other, idempotency, A)
  return replace.apply(other, new, now)
end

-- x: record.at of the core key. idempotency: its key, or nil. A: the arguments of create. The same
-- id again is the same call, whatever the mode (G3).
function M.create(x, idempotency, A, now)
  local mode = A.on_duplicate
  local wrong = mode ~= "return_existing" and check_mode(A, idempotency)
  if wrong then return wrong end
  local existing = known_id(x, idempotency)
  local foreign = tenant.scope and check_scope(x, A, existing)
  if foreign then return foreign end
  if existing and (mode == "return_existing" or existing == x.id) then return reply.duplicate(existing) end
  if existing and mode == "reject" then return reply.refuse("execution_already_exists", existing) end
  if existing and mode == "until_success" then
    local answer = missed_key.answer(x, existing)
    if answer then return reply.duplicate(answer) end
  elseif existing then
    return replace_waiting(x, idempotency, A, existing, now)
  end
  local new, refusal = content.read(A, now, now)
  if refusal then return refusal end

  return M.accept(x, idempotency, A, new, now)
end

return M
