--- Tell how the output stream of an attempt stands, without reading it.
-- @keys    core
-- @args    execution_id:id attempt_index:nat
-- @reply   meta length first_id last_id closed_at closed_reason summary_version
-- @errors  invalid_input execution_not_found
-- @flags   no-writes
-- @repeat  safe
-- @uses    digits record reply stream summary
-- The frame at one end of the stream; the entry that marks a closed one is none.
local function frame_at(command, key, from, to)
  for _, entry in ipairs(redis.call(command, key, from, to, "COUNT", 2)) do
    if not stream.is_end(entry) then return entry[1] end
  end
  return ""
end

return function(K, A)
  local x, index = record.load(K.core), digits.of(A.attempt_index)

  if not x then return reply.refuse("execution_not_found") end

  local key = stream.key(x, index)
  local meta = redis.call("HGETALL", key .. ":meta")
  local closed = redis.call("HMGET", key .. ":meta", "closed_at", "closed_reason")
  local length, last = redis.call("XLEN", key), redis.call("XREVRANGE", key, "+", "-", "COUNT", 1)[1]
  if last and stream.is_end(last) then length = length - 1 end
  local at, reason = closed[1], closed[2]
  if #meta == 0 then at, reason = stream.ended(x, A.attempt_index) end
  return {
    1, "OK", meta, tostring(length), frame_at("XRANGE", key, "-", "+"), frame_at("XREVRANGE", key, "+", "-"), at or "",
    reason or "", redis.call("HGET", summary.key(x, index), "version") or "0",
  }
end
