-- A part of a graph in one call: members, edges and joins, all checked before the first write (G4).
-- @uses batch bounds cycle_check edge flow flow_making graph_members group_policy join_record only_edge reply
local M = {}

local MAX_EDGES = bounds.GRAPH_PART_MAX_EDGES
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

-- A member by its uuid: a new one, or {number, uuid, x} of an existing one; nil for neither.
local function find(g, uuid)
  if g.by_uuid[uuid] or g.known[uuid] then return g.by_uuid[uuid] or g.known[uuid] end
  local id = g.f.tag .. ":" .. uuid
  local number = flow_making.is_member(g.f, id)
  local x = number and flow_making.waiting_member(g.f, id)
  if not x then return nil end
  local m = {number = tonumber(number), uuid = uuid, x = x, is_known = true}
  g.known[uuid], g.old[#g.old + 1] = m, m
  return m
end

local function check_ends(g, e, up, down)
  if up == down then return reply.refuse("self_referencing_edge", e.up) end
  if not up or not down then return reply.refuse("execution_not_in_flow", up and e.down or e.up, "edges") end
  if up.number > down.number then
    if not down.is_known then return reply.refuse("cycle_detected", e.up, e.down) end
    g.is_unordered = true
  end
  if down.is_known and not down.is_checked then
    down.is_checked = true
    return flow_making.check_downstream(g.f, down.x)
  end
end

-- Edges from earlier to later members close no cycle. With other edges, a cycle needs a new edge to
-- an existing member.
local function check_cycles(g)
  if not g.is_unordered and not g.f.unordered then return nil end
  for _, e in ipairs(g.edges) do
    if g.known[e.down] and cycle_check.leads_to(g.f, e.down, e.up, g.out) then
      return reply.refuse("cycle_detected", e.up, e.down)
    end
  end
end

local function read_edge(g, item)
  local wrong = batch.check(item, EDGE)
  if wrong then return wrong end
  local e = {id = item[1], up = item[2], down = item[3], kind = item[4], ref = item[5]}
  if not graph_members.is_id(e.id) then return reply.invalid("edge_id", "an id without spaces", e.id) end
  if not edge.KINDS[e.kind] then
    return reply.invalid("dependency_kind", "success_only, any_terminal or on_failure", e.kind)
  end
  if g.edge_ids[e.id] or edge.load(g.f, e.id) then return reply.refuse("dependency_already_exists", e.id) end
  local up, down = find(g, e.up), find(g, e.down)
  local refusal = check_ends(g, e, up, down)
  if refusal then return refusal end
  g.edge_ids[e.id], g.edges[#g.edges + 1] = true, e
  g.out[e.up] = g.out[e.up] or {}
  table.insert(g.out[e.up], e.down)
  up.only_edge, e.is_known = #g.out[e.up] == 1 and e or nil, up.is_known
  down.edge_count = (down.edge_count or 0) + 1
  if e.ref ~= "" then down.has_inputs = true end
end

local function read_group(g, item)
  local wrong = batch.check(item, GROUP)
  if wrong then return wrong end
  local wanted, refusal = group_policy.read(item[2], item[3], item[4])
  if refusal then return refusal end
  local down = find(g, item[1])
  if not down then return reply.refuse("execution_not_in_flow", item[1], "groups") end
  local stored = join_record.load(g.f, item[1])
  if stored.n > 0 and not group_policy.is_same(stored, wanted) then
    return reply.invalid("edge_group_policy_already_fixed", "no edges yet", stored.n)
  end
  if g.is_whole and wanted.k and wanted.k > (down.edge_count or 0) then
    return reply.invalid("k", "at most the number of edges", wanted.k)
  end
  g.groups[#g.groups + 1] = {uuid = item[1], stored = stored, wanted = wanted}
end

local function each(g, items, read)
  for _, item in ipairs(items) do
    local refusal = read(g, item)
    if refusal then return refusal end
  end
end

-- The parts to write: members, edges, groups; or nil and a refusal. f: the flow, with counts of 0
-- when it is new.
function M.read(f, r, payloads, now)
  local g = {
    f = f, now = now, members = {}, by_uuid = {}, known = {}, old = {}, edges = {}, edge_ids = {}, groups = {},
    out = {}, is_whole = r.create == true and r.commit == true,
  }
  local refusal = check_lists(r) or flow_making.check_size(f, #r.members, #r.edges)
    or graph_members.read(g, r, payloads) or graph_members.read_child_flows(g, r)
    or each(g, r.edges, read_edge) or check_cycles(g) or each(g, r.groups, read_group)
  if refusal then return nil, refusal end
  for _, m in ipairs(g.members) do m.only_edge = m.only_edge and only_edge.of_new(m.only_edge) end
  return g
end

local function is_group_known(f, item)
  if batch.check(item, GROUP) then return false end
  local wanted = group_policy.read(item[2], item[3], item[4])
  return wanted and group_policy.is_same(join_record.load(f, item[1]), wanted)
end

-- Was this part written before? Its first member, edge or join tells.
function M.is_known(f, r)
  local first, link, join = (r.members or {})[1], (r.edges or {})[1], (r.groups or {})[1]
  if first then return flow_making.is_member(f, f.tag .. ":" .. tostring(first[1])) end
  if link then return edge.load(f, tostring(link[1])) end
  if join then return is_group_known(f, join) and not (r.commit and f.staged == "building") end
  return r.commit and f.staged ~= "building" or flow.has_ended(f)
end

return M
