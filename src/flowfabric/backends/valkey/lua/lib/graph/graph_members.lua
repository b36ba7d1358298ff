-- The new members of a graph in one call: checked, not written yet.
-- @uses batch content reply submission tenant
local M = {}

function M.is_id(text) return text ~= "" and not text:find("[%s:]") end

-- One member: x (its names), A (the arguments of create), new (from content.read).
local function read_member(f, item, payload, now)
  local wrong = submission.check(item)
  if wrong then return nil, wrong end
  if not M.is_id(item[1]) then return nil, reply.invalid("uuid", "an id without spaces", item[1]) end
  if item[3] == "" then return nil, reply.invalid("lane_id", "text that is not empty", "") end
  local A = submission.arguments(item, payload)
  if item[9] and item[9] ~= "" then return nil, reply.invalid("idempotency_key", "none on a member", item[9]) end
  local foreign = tenant.check_member(f.namespace, A.namespace)
  if foreign then return nil, foreign end
  local new, refusal = content.read(A, now, now)
  if refusal then return nil, refusal end
  return {uuid = item[1], x = batch.at(f.tag, item[1]), A = A, new = new}
end

-- The new members of a call, in order. A refusal or nil.
function M.read(g, r, payloads)
  local cores = {}
  for i, item in ipairs(r.members) do
    local m, refusal = read_member(g.f, item, payloads[i], g.now)
    if refusal then return refusal end
    if g.by_uuid[m.uuid] then return reply.invalid("members", "each uuid once", m.uuid) end
    m.number, g.members[i], g.by_uuid[m.uuid], cores[i] = g.f.node_count + i - 1, m, m, m.x.core
  end
  if #cores == 0 or redis.call("EXISTS", unpack(cores)) == 0 then return nil end
  for _, m in ipairs(g.members) do
    if redis.call("EXISTS", m.x.core) == 1 then return reply.refuse("execution_already_exists", m.x.id) end
  end
end

-- The members that stand for flows. A refusal or nil.
function M.read_child_flows(g, r)
  for _, pair in ipairs(r.child_flows) do
    local m = type(pair) == "table" and g.by_uuid[pair[1]]
    if not m or type(pair[2]) ~= "string" or not M.is_id(pair[2]) then
      return reply.invalid("child_flows", "pairs of a new member and a flow id", tostring(pair))
    end
    m.child_flow_id = pair[2]
  end
end

return M
