-- The owner of a line in the event log: an execution, a flow or a budget, and whether it matches a
-- filter.
-- @uses flow tenant
local M = {}

-- A budget is of the namespace or the lane that it was made for.
local function of_budget(tag, id)
  local found = redis.call("HMGET", "ff:budget:" .. tag .. ":" .. id, "scope_type", "scope_id", "namespace")
  local def = {scope_type = found[1] or nil, scope_id = found[2] or nil, namespace = found[3] or nil}
  return {
    namespace = tenant.owner(def), lane_id = def.scope_type == "lane" and def.scope_id,
    is_hidden = tenant.hides_limit(def),
  }
end

local function of_flow(tag, id)
  local namespace = redis.call("HGET", flow.at(tag, id).core, "namespace")
  return {namespace = namespace, flow_id = id, is_hidden = not namespace or tenant.hides(namespace)}
end

local function of_execution(tag, id)
  local core = "ff:exec:" .. tag .. ":" .. id .. ":core"
  local found = redis.call("HMGET", core, "lane_id", "namespace", "execution_kind", "flow_id")
  if not found[1] then return {is_hidden = true} end
  return {
    lane_id = found[1], namespace = found[2] or "default", execution_kind = found[3], flow_id = found[4],
    is_hidden = tenant.hides(found[2] or nil),
  }
end

-- The kind of owner, by the prefix of the event's name.
local OTHERS = {flow_ = of_flow, budget_ = of_budget}

-- Namespace, lane, kind and flow of the owner while its record exists; missing ones are absent or
-- false.
function M.of(tag, name, id)
  local of_its_kind = OTHERS[name:match("^%a+_")]
  if of_its_kind then return of_its_kind(tag, id:sub(#tag + 2)) end
  return of_execution(tag, id)
end

local WANTED = {"namespace", "lane_id", "execution_kind", "flow_id"}

local function fits(owner, A)
  if tenant.scope and owner.is_hidden then return false end
  for i = 1, #WANTED do
    local name = WANTED[i]
    if A[name] ~= "" and A[name] ~= owner[name] then return false end
  end
  return true
end

-- Does the owner match? Looked up once per call.
function M.filter(tag, A)
  local is_filtered = tenant.scope or A.namespace .. A.lane_id .. A.execution_kind .. A.flow_id ~= ""
  if not is_filtered then return function() return true end end
  local known = {}
  return function(name, id)
    if known[id] == nil then known[id] = fits(M.of(tag, name, id), A) end
    return known[id]
  end
end

return M
