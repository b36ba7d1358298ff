--- Register a worker, or update what it offers: it counts as alive for ttl_ms from now on.
-- @keys    ~alive caps ~index
-- @args    worker_instance_id:id worker_id:id lanes_csv caps_csv ttl_ms:pos now_ms:nat=0 version= host= slots:nat=0
-- @reply   status
-- @errors  invalid_input worker_instance_in_use
-- @repeat  safe
-- @uses    clock digits names reply worker_registry
local function given(fields, name, value)
  if value ~= "" then
    fields[#fields + 1] = name
    fields[#fields + 1] = value
  end
end

local function fields_of(A, registered_at)
  local fields = {"worker_id", A.worker_id, "ttl_ms", digits.of(A.ttl_ms), "registered_at_ms", registered_at}
  given(fields, "lanes_csv", A.lanes_csv)
  given(fields, "caps_csv", A.caps_csv)
  given(fields, "version", A.version)
  given(fields, "host", A.host)
  given(fields, "slots", A.slots > 0 and digits.of(A.slots) or "")
  return fields
end

return function(K, A)
  local now = clock.at(A.now_ms)
  local name, refusal = worker_registry.name(K.caps)
  if refusal then return refusal end

  if name:match(":(.+)$") ~= names.part(A.worker_instance_id) then
    return reply.invalid("worker_instance_id", "the one in the key", A.worker_instance_id)
  end
  local alive = worker_registry.alive_until(name, now)
  local known = alive and worker_registry.facts(name, {"worker_id", "registered_at_ms"}) or {}
  if alive and known[1] ~= A.worker_id then return reply.refuse("worker_instance_in_use", known[1]) end

  worker_registry.enrol(name, fields_of(A, known[2] or digits.of(now)))
  worker_registry.prolong(name, now, A.ttl_ms)

  return reply.ok(alive and "refreshed" or "registered")
end
