--- Submit a graph, or a part of one, in one step: members, edges and joins. Nothing runs before the commit.
-- @keys    flow_core
-- @args    flow_id:id request:id *payloads
-- @reply   flow_id graph_revision node_count edge_count public_flow_state left
-- @errors  invalid_input flow_not_found flow_already_terminal stale_graph_revision flow_too_large invalid_policy_json
--          invalid_capabilities execution_already_exists execution_not_found execution_not_in_flow execution_not_active
--          self_referencing_edge cycle_detected dependency_already_exists edge_group_decided
-- @events  created blocked unblocked skipped cancelled completed failed claimed resumed flow_completed flow_failed
--          flow_cancelled
-- @repeat  safe
-- @uses    batch clock flow flow_making flow_work graph_request graph_writing record reply tenant
local TEXTS = {"flow_kind", "namespace", "failure_policy", "parent_execution_id"}

local function check(r)
  if not r.create then return nil end
  for _, name in ipairs(TEXTS) do
    if type(r[name]) ~= "string" then return reply.invalid(name, "text", r[name]) end
  end
  return flow_making.check_policy(r.failure_policy) or tenant.check_own(r.namespace)
end

-- The flow as stored; a new one is empty.
local function find(K, A, r)
  local f, refusal = flow.of_key(K.flow_core, A.flow_id)
  if refusal then return nil, refusal end
  if flow.fill(f) then
    local taken = flow.check_taken(f)
    if taken then return nil, r.create and taken or reply.refuse("flow_not_found") end
    return f
  end
  if not r.create then return nil, reply.refuse("flow_not_found") end
  f.is_new = true
  return f
end

local function check_flow(f, r)
  local refusal = not f.is_new and flow.check_growth(f)
  if refusal then return refusal end
  if r.revision and r.revision ~= f.graph_revision then
    return reply.refuse("stale_graph_revision", f.graph_revision)
  end
end

-- The member that stands for this flow; nil, with a refusal if there is a problem.
local function find_parent(f, r)
  local id = r.create and r.parent_execution_id or f.parent_execution_id
  if not id or id == "" then return nil end
  local parent = record.load("ff:exec:" .. f.tag .. ":" .. id .. ":core")
  if not parent then return nil, reply.refuse("execution_not_found", id) end
  if parent.child_flow_id ~= f.id then
    return nil, reply.invalid("parent_execution_id", "a member for this flow", id)
  end
  if parent.lifecycle_phase == "terminal" then return nil, reply.refuse("flow_already_terminal", "parent_ended") end
  return parent, tenant.check_member(parent.namespace, f.is_new and r.namespace or f.namespace)
end

local function answer(word, f, now)
  local left = flow_work.is_left(f.tag, f.id, now) and 1 or 0
  return word(f.id, f.graph_revision, f.node_count, f.edge_count, f.public_flow_state, left)
end

return function(K, A)
  local now = clock.now_ms()
  local r, refusal = batch.decode("request", A.request)
  refusal = refusal or check(r)
  if refusal then return refusal end
  local f, missing = find(K, A, r)
  if missing then return missing end
  if not f.is_new and graph_request.is_known(f, r) then return answer(reply.satisfied, f, now) end
  refusal = check_flow(f, r)
  if refusal then return refusal end
  local parent, bad_parent = find_parent(f, r)
  if bad_parent then return bad_parent end
  f.namespace = f.namespace or r.namespace
  local graph, wrong = graph_request.read(f, r, A.payloads, now)
  if wrong then return wrong end

  r.create = f.is_new
  if r.parent_execution_id == "" then r.parent_execution_id = nil end
  graph_writing.write(graph, r, parent)

  return answer(reply.ok, f, now)
end
