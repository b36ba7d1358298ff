--- Let another execution be signalled when this one has ended; its state does not change.
-- @keys    core
-- @args    watcher_id:id
-- @reply   status public_state
-- @errors  invalid_input execution_not_found
-- @repeat  safe
-- @uses    bounds clock record reply watching
return function(K, A)
  local now = clock.now_ms()
  local x = record.load(K.core)

  if not A.watcher_id:find("^{fp:%d+}:[%x-]+$") then
    return reply.invalid("watcher_id", "the id of an execution", A.watcher_id)
  end
  if not x then return reply.refuse("execution_not_found") end
  if A.watcher_id == x.id then return reply.invalid("watcher_id", "another execution", A.watcher_id) end
  local is_over = x.lifecycle_phase == "terminal"
  if not is_over and redis.call("SCARD", watching.key(x)) >= bounds.MAX_WATCHERS then
    return reply.invalid("watcher_id", "one of at most " .. bounds.MAX_WATCHERS .. " watchers", A.watcher_id)
  end

  if is_over then watching.told(x, A.watcher_id) else watching.add(x, now, A.watcher_id) end
  return reply.ok(is_over and "ended" or "watching", record.public_state(x))
end
