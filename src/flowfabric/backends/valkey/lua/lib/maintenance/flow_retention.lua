-- Deleting a member deletes its part of the flow; the last member takes the flow along (D29).
-- @uses edge flow index_key join_record limit_scopes member tasks
local M = {}

local OWN = {"core", "members", "edges", "tags", "failures", "compensated", "pending_cancels"}

-- Members are deleted only after their flow has ended: until then others may depend on them.
function M.is_kept(x)
  local f = flow.load(x.tag, x.flow_id)
  return f ~= nil and not flow.has_ended(f)
end

-- Edges are deleted with their downstream, which every edge has.
function M.add_member(keys, x)
  local f, uuid = flow.at(x.tag, x.flow_id), tasks.uuid(x)
  local incoming = edge.in_key(f, uuid)
  edge.make_room(f, uuid)  -- its downstreams may still be there
  local ids = redis.call("ZRANGE", incoming, 0, -1)
  for i = 1, #ids, 500 do redis.call("HDEL", edge.key(f), unpack(ids, i, math.min(i + 499, #ids))) end
  keys[#keys + 1], keys[#keys + 2], keys[#keys + 3] = incoming, edge.out_key(f, uuid), join_record.key(f, uuid)
  if x.child_flow_id then member.drop_work(f, "orphan", uuid) end
  redis.call("ZREM", flow.key(f, "members"), x.id)
  if redis.call("EXISTS", flow.key(f, "members")) == 1 then return end
  for _, name in ipairs(OWN) do keys[#keys + 1] = flow.key(f, name) end
  redis.call("ZREM", index_key.partition(f, "flow_index"), f.id)
  member.drop_work(f, "abandon")
  limit_scopes.forget(f.tag, "flow", f.id)
end

return M
