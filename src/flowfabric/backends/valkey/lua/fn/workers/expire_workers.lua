--- Remove workers that missed their heartbeats, up to a limit.
-- @keys    index
-- @args    limit:pos
-- @reply   expired
-- @errors  invalid_input
-- @repeat  safe
-- @uses    clock reply worker_registry
local MAX_LIMIT = 1000

return function(K, A)
  if K.index ~= worker_registry.BY_EXPIRY then return reply.invalid("index", worker_registry.BY_EXPIRY, K.index) end
  if A.limit > MAX_LIMIT then return reply.invalid("limit", "at most " .. MAX_LIMIT, A.limit) end

  local dead = worker_registry.dead(clock.now_ms(), A.limit)
  for _, name in ipairs(dead) do worker_registry.strike(name) end

  return reply.ok(#dead)
end
