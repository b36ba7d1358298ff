--- Read the results that the upstreams of a member pass to it, by edge.
-- @keys    core
-- @args    execution_id:id
-- @reply   inputs results
-- @errors  execution_not_found
-- @flags   no-writes
-- @repeat  safe
-- @uses    inputs record reply
return function(K, _)
  local x = record.load(K.core)

  if not x then return reply.refuse("execution_not_found") end
  if not x.has_inputs then return {1, "OK", {}, ""} end

  local rows, results = inputs.of(x)
  return {1, "OK", rows, results}
end
