-- Where edges lead to: no flow has a cycle.
-- @uses edge
local M = {}

-- The downstreams of a member; `more` has edges that are not written yet, as lists by upstream.
local function downstreams(f, uuid, more)
  local found = {unpack(more and more[uuid] or {})}
  local edges = edge.page(f, edge.out_key(f, uuid), 0)
  for i = 1, #edges do found[#found + 1] = edges[i].down end
  return found
end

-- Does `from` lead to `to`? Exact, whatever the size (D28).
function M.leads_to(f, from, to, more)
  local seen, queue, head = {[from] = true}, {from}, 1
  while head <= #queue do
    local found = downstreams(f, queue[head], more)
    head = head + 1
    for i = 1, #found do
      if found[i] == to then return true end
      if not seen[found[i]] then
        seen[found[i]] = true
        queue[#queue + 1] = found[i]
      end
    end
  end
  return false
end

-- Would one more edge close a cycle?
function M.closes_cycle(f, up, down)
  local is_end = redis.call("EXISTS", edge.in_key(f, up)) == 0 or redis.call("EXISTS", edge.out_key(f, down)) == 0
  return not is_end and M.leads_to(f, down, up)
end

return M
