--- List the tasks that workers of a namespace have registered, with their options: one, or by name, page by page.
-- @keys    index
-- @args    namespace:id name= after= limit:pos=100
-- @reply   next tasks
-- @errors  invalid_input
-- @flags   no-writes
-- @repeat  safe
-- @uses    reply task_registry tenant worker_registry
local MAX_PAGE = 1000

return function(K, A)
  if K.index ~= worker_registry.BY_NAME then return reply.invalid("index", worker_registry.BY_NAME, K.index) end
  if A.limit > MAX_PAGE then return reply.invalid("limit", "at most " .. MAX_PAGE, A.limit) end
  if tenant.hides(A.namespace) then return {1, "OK", "", {}} end

  if A.name ~= "" then return {1, "OK", "", {task_registry.get(A.namespace, A.name)}} end
  local found, out = task_registry.names(A.namespace, A.after), {}
  for at = 1, math.min(A.limit, #found) do out[at] = task_registry.get(A.namespace, found[at]) end
  return {1, "OK", #found > A.limit and found[A.limit] or "", out}
end
