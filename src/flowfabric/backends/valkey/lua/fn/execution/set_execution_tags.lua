--- Set tags of an execution; its state does not change.
-- @keys    core ~tags
-- @args    *pairs
-- @reply   count
-- @errors  invalid_input execution_not_found invalid_tag_key
-- @repeat  safe
-- @uses    clock record reply tags update
return function(K, A)
  local now = clock.now_ms()
  local x = record.load(K.core)

  if #A.pairs == 0 or #A.pairs % 2 == 1 then
    return reply.invalid("tags", "key, value pairs", #A.pairs .. " arguments")
  end
  if not x then return reply.refuse("execution_not_found") end
  for i = 1, #A.pairs, 2 do
    if not tags.is_key(A.pairs[i]) then return reply.refuse("invalid_tag_key", A.pairs[i]) end
  end

  tags.write(x, A.pairs)
  update.write(x, now, {})

  return reply.ok(#A.pairs / 2)
end
