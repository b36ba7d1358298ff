-- Create flows, and add executions and edges to them.
-- @uses bounds digits edge flow flow_failure flow_state index_key join_record lease member record reply tasks update
local M = {}

M.MAX_NODES, M.MAX_EDGES = bounds.MAX_FLOW_MEMBERS, bounds.MAX_FLOW_EDGES

local POLICIES = {continue = true, fail_fast = true}

function M.check_policy(text)
  if not POLICIES[text] then return reply.invalid("failure_policy", "continue or fail_fast", text) end
end

-- said: flow_kind, namespace, failure_policy, parent_execution_id?, staged?. The fields of a step
-- come first, where they are found soonest.
function M.create(f, now, said)
  local at, policy, set = digits.of(now), said.failure_policy ~= "continue" and said.failure_policy, {}
  local function add(name, value)
    if value then set[#set + 1], set[#set + 2] = name, value end
  end
  add("is_plain", "1")
  add("public_flow_state", "open")
  for _, name in ipairs({"node_count", "moving_count", "members_completed"}) do add(name, 0) end
  add("last_mutation_at", at)
  add("flow_id", f.id)
  for _, name in ipairs({"flow_kind", "namespace", "parent_execution_id", "staged"}) do add(name, said[name]) end
  add("failure_policy", policy)
  for _, name in ipairs({"graph_revision", "edge_count"}) do add(name, 0) end
  add("created_at", at)
  redis.call("HSET", f.core, unpack(set, flow.are_plain(set) and 1 or 3))
  redis.call("ZADD", index_key.partition(f, "flow_index"), at, f.id)
  flow.fill(f)
end

function M.is_member(f, id) return redis.call("ZSCORE", flow.key(f, "members"), id) end

function M.check_size(f, nodes, edges)
  if f.node_count + nodes > M.MAX_NODES then return reply.refuse("flow_too_large", "members", M.MAX_NODES) end
  if f.edge_count + edges > M.MAX_EDGES then return reply.refuse("flow_too_large", "edges", M.MAX_EDGES) end
end

-- Count a new member in its current state.
function M.enlist(f, x)
  redis.call("ZADD", flow.key(f, "members"), f.node_count, x.id)
  flow.add(f, "node_count", 1)
  if member.is_moving(x) then flow.add(f, "moving_count", 1) end
  if x.lifecycle_phase == "active" then f.is_started = true end
  if x.lifecycle_phase ~= "terminal" then return end
  flow.add(f, flow.COUNTED[x.terminal_outcome], 1)
  if x.terminal_outcome ~= "success" and x.terminal_outcome ~= "skipped" then
    flow_failure.note(f, "member " .. tasks.uuid(x), x.id)
  end
end

-- Add an existing execution.
function M.adopt(f, x, now)
  if flow.has_ended(f) then flow_state.reopen(f) end
  update.write(x, now, {"flow_id", f.id})
  M.enlist(f, x)
  flow.add(f, "graph_revision", 1)
  flow_state.settle(f, now)
end

-- May an edge lead to this downstream? A decided join takes no more edges, except that a running
-- member with an all-of join may wait for more (D26). A refusal or nil.
function M.check_downstream(f, x)
  if x.lifecycle_phase == "terminal" then return lease.not_active(x) end
  local g = join_record.load(f, tasks.uuid(x))
  if g.group_state == "pending" then return nil end
  if g.group_state == "satisfied" and g.policy_variant == "all_of" and x.lifecycle_phase == "active" then return nil end
  return reply.refuse("edge_group_decided", g.group_state)
end

-- Add a checked edge and count it in its join. state: staged or unsatisfied.
function M.link(f, e, now)
  e.created_at = digits.of(now)
  join_record.grow(join_record.load(f, e.down), 1)
  edge.add(f, e, f.edge_count)
  flow_failure.note_handlers(f, {e})
  flow.add(f, "edge_count", 1)
end

-- Add to the list at `key`.
local function list(lists, key, ...)
  local found = lists[key] or {}
  lists[key] = found
  for i = 1, select("#", ...) do found[#found + 1] = select(i, ...) end
end

-- Add many checked, unsatisfied edges. Each list is written once. joins: the existing joins by
-- downstream; the others are new. An edge that is_only is new with its upstream.
function M.link_all(f, edges, now, joins)
  local ends, counts, grown = {}, {}, {}
  for i = 1, #edges do
    local e, number = edges[i], f.edge_count + i - 1
    e.created_at, e.state = digits.of(now), "unsatisfied"
    list(ends, edge.out_key(f, e.up), number, e.id)
    list(ends, edge.in_key(f, e.down), number, e.id)
    if e.is_known then grown[e.up] = true end
    counts[e.down] = (counts[e.down] or 0) + 1
  end
  for up in pairs(grown) do edge.make_room(f, up) end
  for down, count in pairs(counts) do join_record.grow(joins[down] or join_record.new(f, down), count) end
  edge.save_all(f, edges, #edges)
  flow_failure.note_handlers(f, edges)
  for key, entries in pairs(ends) do redis.call("ZADD", key, unpack(entries)) end
  flow.add(f, "edge_count", #edges)
end

-- A member, as far as a new edge needs it. A large graph asks thousands of times about members that
-- wait in an incomplete graph; their state is enough.
function M.waiting_member(f, id)
  local core = "ff:exec:" .. f.tag .. ":" .. id .. ":core"
  if f.staged ~= "building" then return record.load(core) end
  local found = redis.call("HMGET", core, "lifecycle_phase", "public_state")
  if found[1] ~= "runnable" or found[2] ~= "waiting_children" then return record.load(core) end
  local x = record.at(core)
  x.lifecycle_phase, x.eligibility_state = found[1], "blocked_by_dependencies"
  return x
end

-- The execution of a member; nil when it is not in this flow.
function M.member(f, id)
  if id:sub(1, #f.tag + 1) ~= f.tag .. ":" or not M.is_member(f, id) then return nil end
  return record.load("ff:exec:" .. f.tag .. ":" .. id .. ":core")
end

return M
