--- List the owners of event log lines: namespace, lane, kind and flow of each id, "" for a missing one.
-- @keys    partition
-- @args    *lines
-- @reply   owners
-- @errors  invalid_input
-- @flags   no-writes
-- @repeat  safe
-- @uses    line_owner listing reply
-- A line is given as the name of its event followed by its id.
local MAX_PAGE = 1000

return function(K, A)
  local tag, refusal = listing.tag(K.partition)
  if refusal then return refusal end
  if #A.lines > MAX_PAGE then return reply.invalid("lines", "at most " .. MAX_PAGE, #A.lines) end

  local owners = {}
  for i, line in ipairs(A.lines) do
    local name, id = line:match("^(%S+) (%S+)$")
    if not name then return reply.invalid("lines", "an event and an id", line) end
    local owner = line_owner.of(tag, name, id)
    owners[i] = {owner.namespace or "", owner.lane_id or "", owner.execution_kind or "", owner.flow_id or ""}
  end
  return {1, "OK", owners}
end
