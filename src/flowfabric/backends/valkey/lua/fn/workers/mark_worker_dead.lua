--- Remove a worker from the list. Its executions are lost when their leases expire, not before.
-- @keys    ~alive caps ~index
-- @args
-- @reply   status
-- @errors  invalid_input
-- @repeat  safe
-- @uses    clock reply worker_registry
return function(K)
  local name, refusal = worker_registry.name(K.caps)
  if refusal then return refusal end

  local alive = worker_registry.alive_until(name, clock.now_ms())
  worker_registry.strike(name)

  return reply.ok(alive and "marked" or "not_registered")
end
