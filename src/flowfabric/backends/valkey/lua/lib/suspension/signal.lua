-- Signals to an execution, each stored under its own key and listed with the execution.
-- @uses bounds composite digits hash reply waitpoint
local M = {}

local MAX_PAYLOAD = bounds.SIGNAL_PAYLOAD_MAX_BYTES
local OPTIONAL = {"signal_category", "source_type", "source_identity", "correlation_id", "idempotency_key"}

function M.key(tag, id) return "ff:signal:" .. tag .. ":" .. id end

function M.list_key(x) return x.base .. ":signals" end

-- place: the owner of the idempotency key, a waitpoint or an execution.
local function dedup_key(x, place, A) return "ff:sigdedup:" .. x.tag .. ":" .. place .. ":" .. A.idempotency_key end

-- Checks that need no reads.
function M.check(A)
  if A.signal_id:find(":", 1, true) or #A.signal_id > 128 then
    return reply.invalid("signal_id", "an id without ':'", A.signal_id)
  end
  if A.signal_name == "" or composite.RESERVED[A.signal_name] then
    return reply.invalid("signal_name", "a name that is not reserved", A.signal_name)
  end
  if #A.payload > MAX_PAYLOAD then return reply.refuse("payload_too_large", MAX_PAYLOAD) end
end

-- The signal that was accepted before, under the same idempotency key at this place or the same id.
-- Or nil and a refusal: the id belongs to another execution. Sets x.signals, the number of its
-- signals.
function M.earlier(x, place, A)
  if A.idempotency_key ~= "" then
    local id = redis.call("GET", dedup_key(x, place, A))
    if id then return id end
  end
  local list = M.list_key(x)
  local found = redis.call("EXISTS", M.key(x.tag, A.signal_id), list)
  x.signals = found > 0 and redis.call("ZCARD", list) or 0
  if found == 0 or found == 1 and x.signals > 0 then return nil end
  if x.signals > 0 and redis.call("ZSCORE", list, A.signal_id) then return A.signal_id end
  return nil, reply.invalid("signal_id", "an id that is not in use", A.signal_id)
end

-- The time of its arrival; signals of one millisecond follow one another by thousandths.
local function place_in_order(x, now)
  if x.signals == 0 then return digits.of(now) end
  local before = redis.call("ZCOUNT", M.list_key(x), digits.of(now), "(" .. digits.of(now + 1))
  return ("%.3f"):format(now + math.min(before, 999) / 1000)
end

-- Store a signal. A: its fields; empty ones are not stored, and its creation only where it differs.
function M.record(x, now, A, waitpoint_id, effect)
  hash.begin()
  hash.put("signal_name", A.signal_name)
  hash.put("target_waitpoint_id", waitpoint_id)
  hash.put("accepted_at", digits.of(now))
  hash.put("observed_effect", effect)
  for i = 1, #OPTIONAL do hash.put(OPTIONAL[i], A[OPTIONAL[i]]) end
  hash.put_unless("target_scope", A.target_scope, "waitpoint")
  hash.put_unless("payload_encoding", A.payload_encoding, "json")
  if A.created_at and A.created_at ~= now then hash.put("created_at", digits.of(A.created_at)) end
  local key = M.key(x.tag, A.signal_id)
  hash.store(key)
  if A.payload ~= "" then redis.call("SET", key .. ":payload", A.payload) end
  redis.call("ZADD", M.list_key(x), place_in_order(x, now), A.signal_id)
end

function M.remember(x, place, A)
  if A.idempotency_key == "" or A.dedup_ttl_ms == 0 then return end
  redis.call("SET", dedup_key(x, place, A), A.signal_id, "PX", digits.of(A.dedup_ttl_ms))
end

-- Buffer a recorded signal for a pending waitpoint; beyond `most`, the oldest are dropped.
function M.buffer(w, id, most)
  local key = waitpoint.buffer_key(w)
  redis.call("RPUSH", key, id)
  if most > 0 then redis.call("LTRIM", key, -most, -1) end
end

-- The fields that conditions use.
function M.view(A)
  return {id = A.signal_id, name = A.signal_name, source_type = A.source_type, source_identity = A.source_identity}
end

-- The buffered signals of a pending waitpoint, oldest first.
function M.buffered(w)
  local found = {}
  for _, id in ipairs(redis.call("LRANGE", waitpoint.buffer_key(w), 0, -1)) do
    local kept = redis.call("HMGET", M.key(w.tag, id), "signal_name", "source_type", "source_identity")
    found[#found + 1] = {id = id, name = kept[1] or "", source_type = kept[2] or "", source_identity = kept[3] or ""}
  end
  return found
end

return M
