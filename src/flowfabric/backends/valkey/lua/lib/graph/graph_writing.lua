-- Write a checked part of a graph: members, edges and joins, and their immediate effects.
-- @uses advance edge edge_life flow flow_making group_policy join_record member parked_handoff submit tasks update
--       writes
local M = {}

-- A member with dependencies is created blocked: it cannot be claimed before its edges are in place
-- (D19).
local function create_member(f, m, now)
  local fields, new = m.new.fields, m.new
  local function add(name, value)
    local n = #fields
    fields[n + 1], fields[n + 2] = name, value
  end
  add("flow_id", f.id)
  if m.only_edge then add("only_edge", m.only_edge) end
  if m.has_inputs then add("has_inputs", "1") end
  if m.child_flow_id then add("child_flow_id", m.child_flow_id) end
  local waits = m.edge_count or f.staged
  if waits or m.child_flow_id then new.state = edge_life.WAITING end
  if m.child_flow_id and not waits then
    add("child_released_at", now)
    member.add_work(f, "orphan", m.uuid, 0, now + member.ABANDONED_MS)
  end
  submit.accept(m.x, nil, m.A, new, now)
  flow_making.enlist(f, m.x)
end

-- Answers the writes to offer to parked claims once all of the graph is in place.
local function create_members(g)
  local collected = writes.collector()
  collected.accepted, collected.wakes_later = {}, true
  for _, m in ipairs(g.members) do
    m.x.writes = collected
    create_member(g.f, m, g.now)
  end
  writes.flush(collected)
  return collected
end

-- The joins that exist before the edges: of existing members, and those with a policy.
local function known_joins(g)
  local joins = {}
  for _, m in ipairs(g.old) do
    if m.edge_count then joins[m.uuid] = join_record.load(g.f, m.uuid) end
  end
  for _, each in ipairs(g.groups) do
    group_policy.store(each.stored, each.wanted, g.now)
    joins[each.uuid] = each.stored
  end
  return joins
end

-- Existing members: a downstream waits for its new edges, and an ended upstream resolves them.
local function connect_known(g, run)
  for _, m in ipairs(g.old) do
    m.x.run, m.x.flow = run, g.f
    if m.edge_count then edge_life.block(m.x, g.now) end
    if m.has_inputs then update.write(m.x, g.now, {"has_inputs", "1"}) end
    if m.x.lifecycle_phase == "terminal" then
      -- Its new edges come last; older ones may wait for its replay.
      local first = redis.call("ZCARD", edge.out_key(g.f, m.uuid)) - #(g.out[m.uuid] or {})
      tasks.add(run, "ended", g.f, m.uuid, first)
    end
  end
end

-- The graph is complete. A child flow waits for the member that stands for it.
function M.commit(f, run, parent)
  local was_staged = f.staged
  if was_staged then member.drop_work(f, "abandon") end
  flow.set(f, "staged", parent and not parent.child_released_at and "held" or nil)
  flow.set(f, "sealed", "1")
  if was_staged and not f.staged then tasks.add(run, "release", f, "-", 0) end
end

-- r: create, commit and the description of a new flow. parent: the member that stands for this
-- flow, if any.
function M.write(g, r, parent)
  local f, now = g.f, g.now
  local run = tasks.start(f.tag, now)
  local is_held = parent and not parent.child_released_at
  if r.create then
    r.staged = (not r.commit and "building") or (is_held and "held") or nil
    flow_making.create(f, now, r)
    if not r.commit then member.add_work(f, "abandon", "-", 0, now + member.ABANDONED_MS) end
  end
  tasks.know(run, f)
  local created = create_members(g)
  flow_making.link_all(f, g.edges, now, known_joins(g))
  if g.is_unordered then flow.set(f, "unordered", "1") end
  flow.add(f, "graph_revision", #g.members + #g.edges)
  connect_known(g, run)
  if r.commit then M.commit(f, run, parent) end
  advance.drive(run)
  parked_handoff.offer_all(f.tag, created, now)
end

return M
