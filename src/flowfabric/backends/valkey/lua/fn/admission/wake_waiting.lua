--- Release executions that wait for a limit, as many as it has room for, best first: rate_limited -> waiting.
-- @keys    partition
-- @args    limit_name:id count:nat look_in_ms:nat
-- @reply   woken left
-- @errors  invalid_input
-- @events  unblocked
-- @repeat  safe
-- @uses    batch blocked clock digits limit_queue listing promotion record reply wakeup writes
local MOST = 1000

return function(K, A)
  local now, tag, refusal = clock.now_ms(), listing.tag(K.partition)
  if refusal then return refusal end
  if A.count > MOST then return reply.invalid("count", "at most " .. MOST, A.count) end

  local key, woken, lanes, collected = limit_queue.key(tag, A.limit_name), 0, {}, writes.collector()
  local ids = A.count > 0 and redis.call("ZRANGE", key, 0, A.count - 1) or {}
  for _, id in ipairs(ids) do
    local x = record.found(batch.at_id(tag, id, collected))
    if x and x.waits_for == A.limit_name and blocked.is_held_back(x) then
      promotion.release(x, now, {"limit_pass", "1"})
      woken, lanes[x.lane_id] = woken + 1, true
    else
      redis.call("ZREM", key, id)
    end
  end
  writes.flush(collected)
  -- Offered executions stay in the queue, so it may not have been empty.
  for lane in pairs(lanes) do wakeup.announce(tag, lane) end
  limit_queue.set_look(tag, A.limit_name, now + A.look_in_ms)

  return reply.ok(digits.of(woken), digits.of(limit_queue.count(tag, A.limit_name)))
end
