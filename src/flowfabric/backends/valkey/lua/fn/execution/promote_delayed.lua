--- Make a delayed execution eligible once it is due: delayed -> waiting. The attempt state is kept.
-- @keys    core delayed ~eligible
-- @args    execution_id:id now_ms:nat=0
-- @reply   status
-- @errors  invalid_input
-- @events  promoted
-- @repeat  safe
-- @uses    clock due index_key record
return function(K, A)
  local x = record.load(K.core)
  local result = due.promote(x, clock.at(A.now_ms))

  if result[3]:sub(-8) == "_cleaned" then
    redis.call("ZREM", x and index_key.lane(x, "delayed") or K.delayed, record.at(K.core).id)
  end
  return result
end
