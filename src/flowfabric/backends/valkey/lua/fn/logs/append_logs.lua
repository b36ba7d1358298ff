--- Keep log records of an attempt, also of one that has ended; beyond the bounds the oldest go. No state changes.
-- @keys    core
-- @args    execution_id:id attempt_index:nat attempt_id:id writer:id first_number:nat max_records:pos max_bytes:pos
--          max_age_ms:pos entries
-- @reply   appended
-- @errors  invalid_input execution_not_found stale_owner_cannot_append
-- @repeat  safe
-- @uses    batch bounds clock logs record reply
local ENTRY = batch.shape(1, {"at_ms", "level", "logger", "message"}, {at_ms = true, level = true})
local MOST = {
  max_records = bounds.MAX_LOG_RECORDS, max_bytes = bounds.MAX_LOG_BYTES, max_age_ms = bounds.MAX_DURATION_MS,
}

local function check_entry(entry)
  local wrong = batch.check(entry, ENTRY)
  if wrong then return wrong end
  if entry[2] > bounds.MAX_LOG_LEVEL then
    return reply.invalid("level", "at most " .. bounds.MAX_LOG_LEVEL, entry[2])
  end
  if #entry[3] > bounds.NAME_MAX_BYTES then
    return reply.invalid("logger", "at most " .. bounds.NAME_MAX_BYTES .. " bytes", #entry[3])
  end
  if #entry[4] > bounds.LOG_MESSAGE_MAX_BYTES then
    return reply.invalid("message", "at most " .. bounds.LOG_MESSAGE_MAX_BYTES .. " bytes", #entry[4])
  end
end

local function check_input(A, entries)
  for name, most in pairs(MOST) do
    if A[name] > most then return reply.invalid(name, "at most " .. most, A[name]) end
  end
  if A.max_bytes < bounds.MIN_LOG_BYTES then
    return reply.invalid("max_bytes", "at least " .. bounds.MIN_LOG_BYTES, A.max_bytes)
  end
  for _, entry in ipairs(entries) do
    local wrong = check_entry(entry)
    if wrong then return wrong end
  end
end

-- The first entry that is new: the reply to an earlier call may have been lost.
local function first_new(x, A)
  local newest = logs.newest(x)
  if not newest or newest.writer ~= A.writer then return 1 end
  return math.max(1, newest.number - A.first_number + 2)
end

return function(K, A)
  local now = clock.now_ms()
  local x = record.load(K.core)

  local entries, refusal = batch.decode("entries", A.entries)
  refusal = refusal or check_input(A, entries)
  if refusal then return refusal end
  if not x then return reply.refuse("execution_not_found") end
  if logs.attempt_id(x, A.attempt_index) ~= A.attempt_id then return reply.refuse("stale_owner_cannot_append") end

  local first = first_new(x, A)
  if first > #entries then return reply.ok("0") end
  logs.append(x, now, A, entries, first)
  logs.trim(x, now, A.max_records, A.max_bytes, A.max_age_ms)

  return reply.ok(tostring(#entries - first + 1))
end
