--- Set tags of a flow; its state does not change.
-- @keys    flow_core ~tags
-- @args    *pairs
-- @reply   count
-- @errors  invalid_input flow_not_found invalid_tag_key
-- @repeat  safe
-- @uses    clock digits flow reply tags
return function(K, A)
  if #A.pairs == 0 or #A.pairs % 2 == 1 then
    return reply.invalid("tags", "key, value pairs", #A.pairs .. " arguments")
  end
  local f, refusal = flow.find(K.flow_core)
  if refusal then return refusal end
  for i = 1, #A.pairs, 2 do
    if not tags.is_key(A.pairs[i]) then return reply.refuse("invalid_tag_key", A.pairs[i]) end
  end

  redis.call("HSET", flow.key(f, "tags"), unpack(A.pairs))
  redis.call("HSET", f.core, "last_mutation_at", digits.of(clock.now_ms()))

  return reply.ok(#A.pairs / 2)
end
