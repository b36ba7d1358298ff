--- Describe the output stream of an attempt without reading its frames.
-- @keys    core
-- @args    execution_id:id attempt_index:nat
-- @reply   meta length first_id last_id closed_at closed_reason summary_version
-- @errors  invalid_input execution_not_found
-- @flags   no-writes
-- @repeat  safe
-- @uses    digits record reply stream summary
-- The frame at one end of the stream.
local function frame_at(command, key, from, to)
  local entry = redis.call(command, key, from, to, "COUNT", 1)[1]
  return entry and entry[1] or ""
end

return function(K, A)
  local x, index = record.load(K.core), digits.of(A.attempt_index)

  if not x then return reply.refuse("execution_not_found") end

  local key = stream.key(x, index)
  local meta = redis.call("HGETALL", key .. ":meta")
  local closed = redis.call("HMGET", key .. ":meta", "closed_at", "closed_reason")
  local at, reason = closed[1], closed[2]
  if #meta == 0 then at, reason = stream.ended(x, A.attempt_index) end
  return {
    1, "OK", meta, tostring(redis.call("XLEN", key)),
    frame_at("XRANGE", key, "-", "+"), frame_at("XREVRANGE", key, "+", "-"), at or "",
    reason or "", redis.call("HGET", summary.key(x, index), "version") or "0",
  }
end
