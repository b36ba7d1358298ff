-- A part of a graph as one call brings it: members, edges and joins, all checked before anything is written (G4).
-- @uses batch content edge flow flow_making group group_policy reply submission
local M = {}

local MAX_EDGES = 1024
local EDGE = batch.shape(1, {"edge_id", "upstream", "downstream", "dependency_kind", "data_passing_ref"})
local GROUP = batch.shape(1, {"downstream", "policy_variant", "on_satisfied", "k"}, {k = true})
local LISTS = {"members", "edges", "groups", "child_flows"}

local function check_lists(r)
  for _, name in ipairs(LISTS) do
    if type(r[name]) ~= "table" then return reply.invalid(name, "a list", type(r[name])) end
  end
  if #r.members > batch.MAX_ITEMS then return reply.invalid("members", "at most " .. batch.MAX_ITEMS, #r.members) end
  if #r.edges > MAX_EDGES then return reply.invalid("edges", "at most " .. MAX_EDGES, #r.edges) end
  if #r.groups > MAX_EDGES then return reply.invalid("groups", "at most " .. MAX_EDGES, #r.groups) end
end

local function is_id(text) return text ~= "" and not text:find("[%s:]") end

-- One member: x (its names), A (the arguments of create), new (what content read).
local function read_member(f, item, payload, now)
  local wrong = submission.check(item)
  if wrong then return nil, wrong end
  if not is_id(item[1]) then return nil, reply.invalid("uuid", "an id without spaces", item[1]) end
  if item[3] == "" then return nil, reply.invalid("lane_id", "text that is not empty", "") end
  local A = submission.arguments(item, payload)
  if item[9] and item[9] ~= "" then return nil, reply.invalid("idempotency_key", "none on a member", item[9]) end
  local new, refusal = content.read(A, now, now)
  if refusal then return nil, refusal end
  return {uuid = item[1], x = batch.at(f.tag, item[1]), A = A, new = new}
end

local function read_members(g, r, payloads)
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

local function read_child_flows(g, r)
  for _, pair in ipairs(r.child_flows) do
    local m = type(pair) == "table" and g.by_uuid[pair[1]]
    if not m or type(pair[2]) ~= "string" or not is_id(pair[2]) then
      return reply.invalid("child_flows", "pairs of a new member and a flow id", tostring(pair))
    end
    m.child_flow_id = pair[2]
  end
end

-- A member by its uuid: a new one, or {number, uuid, x} of one that there was; nil for neither.
local function find(g, uuid)
  if g.by_uuid[uuid] or g.known[uuid] then return g.by_uuid[uuid] or g.known[uuid] end
  local id = g.f.tag .. ":" .. uuid
  local number = flow_making.is_member(g.f, id)
  local x = number and flow_making.member(g.f, id)
  if not x then return nil end
  g.known[uuid] = {number = tonumber(number), uuid = uuid, x = x, is_known = true}
  return g.known[uuid]
end

-- Edges of a call lead to later members, so they close no cycle. Only one between members that there were before, in a
-- graph that has edges against the order, needs a search.
local function check_ends(g, e, up, down)
  if up == down then return reply.refuse("self_referencing_edge", e.up) end
  if not up or not down then return reply.refuse("execution_not_in_flow", up and e.down or e.up) end
  if not down.is_known then
    if up.number > down.number then return reply.refuse("cycle_detected", e.up, e.down) end
    return nil
  end
  if up.number > down.number then g.is_unordered = true end
  if not up.is_known then return flow_making.check_downstream(g.f, down.x) end
  if (g.is_unordered or g.f.unordered) and edge.closes_cycle(g.f, e.up, e.down) then
    return reply.refuse("cycle_detected", e.up, e.down)
  end
  return flow_making.check_downstream(g.f, down.x)
end

local function read_edge(g, item)
  local wrong = batch.check(item, EDGE)
  if wrong then return wrong end
  local e = {id = item[1], up = item[2], down = item[3], kind = item[4], ref = item[5]}
  if not is_id(e.id) then return reply.invalid("edge_id", "an id without spaces", e.id) end
  if not edge.KINDS[e.kind] then
    return reply.invalid("dependency_kind", "success_only, any_terminal or on_failure", e.kind)
  end
  if g.edge_ids[e.id] or edge.load(g.f, e.id) then return reply.refuse("dependency_already_exists", e.id) end
  local up, down = find(g, e.up), find(g, e.down)
  local refusal = check_ends(g, e, up, down)
  if refusal then return refusal end
  g.edge_ids[e.id], g.edges[#g.edges + 1] = true, e
  down.edge_count = (down.edge_count or 0) + 1
  if e.ref ~= "" then down.has_inputs = true end
end

local function read_group(g, item)
  local wrong = batch.check(item, GROUP)
  if wrong then return wrong end
  local wanted, refusal = group_policy.read(item[2], item[3], item[4])
  if refusal then return refusal end
  local down = find(g, item[1])
  if not down then return reply.refuse("execution_not_in_flow", item[1]) end
  local stored = group.load(g.f, item[1])
  if stored.n > 0 and not group_policy.is_same(stored, wanted) then
    return reply.invalid("edge_group_policy_already_fixed", "no edges yet", stored.n)
  end
  if g.is_whole and wanted.k and wanted.k > (down.edge_count or 0) then
    return reply.invalid("k", "at most the number of edges", wanted.k)
  end
  g.groups[#g.groups + 1] = {stored = stored, wanted = wanted}
end

local function each(g, items, read)
  for _, item in ipairs(items) do
    local refusal = read(g, item)
    if refusal then return refusal end
  end
end

-- What is to be written: members, edges, groups; or nil and a refusal. f: the flow, with counts of 0 when it is new.
function M.read(f, r, payloads, now)
  local g = {
    f = f, now = now, members = {}, by_uuid = {}, known = {}, edges = {}, edge_ids = {}, groups = {},
    is_whole = r.create == true and r.commit == true,
  }
  local refusal = check_lists(r) or flow_making.check_size(f, #r.members, #r.edges) or read_members(g, r, payloads)
    or read_child_flows(g, r) or each(g, r.edges, read_edge) or each(g, r.groups, read_group)
  if refusal then return nil, refusal end
  return g
end

-- Was this very part written before? Its first member or edge tells.
function M.is_known(f, r)
  local first, link = (r.members or {})[1], (r.edges or {})[1]
  if first then return flow_making.is_member(f, f.tag .. ":" .. tostring(first[1])) end
  if link then return edge.load(f, tostring(link[1])) end
  return r.commit and f.staged ~= "building" or flow.has_ended(f)
end

return M
