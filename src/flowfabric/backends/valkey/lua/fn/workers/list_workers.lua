--- List live workers by namespace and instance id, page by page.
-- @keys    index
-- @args    namespace after limit:pos
-- @reply   next workers
-- @errors  invalid_input
-- @flags   no-writes
-- @repeat  safe
-- @uses    clock digits reply worker_registry
local MAX_PAGE, LOOKED_AT = 1000, 1000
local FIELDS = {
  "worker_id", "lanes_csv", "caps_csv", "version", "host", "slots", "registered_at_ms", "last_heartbeat_ms", "tasks",
}

local function row(name, expiry)
  local out = {name, digits.of(expiry)}
  local found = worker_registry.facts(name, FIELDS)
  for i = 1, #FIELDS do out[i + 2] = found[i] or "" end
  return out
end

return function(K, A)
  if K.index ~= worker_registry.BY_NAME then return reply.invalid("index", worker_registry.BY_NAME, K.index) end
  if A.limit > MAX_PAGE then return reply.invalid("limit", "at most " .. MAX_PAGE, A.limit) end

  local now, out = clock.now_ms(), {}
  local names = worker_registry.names(A.namespace, A.after, LOOKED_AT)
  for at, name in ipairs(names) do
    local expiry = worker_registry.alive_until(name, now)
    if expiry then out[#out + 1] = row(name, expiry) end
    if #out == A.limit or at == LOOKED_AT then
      return {1, "OK", (at < #names or at == LOOKED_AT) and name or "", out}
    end
  end

  return {1, "OK", "", out}
end
