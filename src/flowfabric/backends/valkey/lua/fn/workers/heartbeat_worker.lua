--- Extend the life of a worker by its registered ttl; one that missed its heartbeats must register again.
-- @keys    ~alive caps
-- @args    now_ms:nat=0
-- @reply   status ttl_ms expires_at
-- @errors  invalid_input
-- @repeat  safe
-- @uses    clock reply worker_registry
return function(K, A)
  local now = clock.at(A.now_ms)
  local name, refusal = worker_registry.name(K.caps)
  if refusal then return refusal end

  local ttl_ms = worker_registry.alive_until(name, now) and tonumber(worker_registry.fact(name, "ttl_ms"))
  if not ttl_ms then return reply.ok("not_registered") end

  return reply.ok("refreshed", ttl_ms, worker_registry.prolong(name, now, ttl_ms))
end
