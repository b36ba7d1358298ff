--- Take a worker off the list. What it runs is lost with its leases, not before.
-- @keys    ~alive caps ~index
-- @args
-- @reply   status
-- @errors  invalid_input
-- @repeat  safe
-- @uses    clock reply roster
return function(K)
  local name, refusal = roster.name(K.caps)
  if refusal then return refusal end

  local alive = roster.alive_until(name, clock.now_ms())
  roster.strike(name)

  return reply.ok(alive and "marked" or "not_registered")
end
