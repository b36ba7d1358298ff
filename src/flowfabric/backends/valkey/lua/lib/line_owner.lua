-- Whose a line of an event log is: an execution, a flow or a budget, and whether a reader asked for it.
-- @uses flow tenant
local M = {}

local function fits(wanted, value) return wanted == "" or wanted == value end

local function is_flow_wanted(tag, A, id)
  if A.lane_id ~= "" or A.execution_kind ~= "" or not fits(A.flow_id, id) then return false end
  if A.namespace == "" and not tenant.scope then return true end
  local namespace = redis.call("HGET", flow.at(tag, id).core, "namespace") or nil
  return fits(A.namespace, namespace) and namespace ~= nil and not tenant.hides(namespace)
end

-- A budget is of the namespace or the lane that it was made for.
local function is_budget_wanted(tag, A, id)
  if A.execution_kind ~= "" or A.flow_id ~= "" then return false end
  local found = redis.call("HMGET", "ff:budget:" .. tag .. ":" .. id, "scope_type", "scope_id", "namespace")
  local def = {scope_type = found[1] or nil, scope_id = found[2] or nil, namespace = found[3] or nil}
  if tenant.hides_limit(def) then return false end
  return fits(A.namespace, tenant.owner(def)) and fits(A.lane_id, def.scope_type == "lane" and def.scope_id)
end

local function is_execution_wanted(tag, A, id)
  local core = "ff:exec:" .. tag .. ":" .. id .. ":core"
  local found = redis.call("HMGET", core, "lane_id", "namespace", "execution_kind", "flow_id")
  if tenant.hides(found[2] or nil) then return false end
  return found[1] and fits(A.lane_id, found[1]) and fits(A.namespace, found[2] or "default")
    and fits(A.execution_kind, found[3]) and fits(A.flow_id, found[4]) or false
end

-- Whose id stands after the partition's tag in a line, by how the event's name begins.
local OTHERS = {flow_ = is_flow_wanted, budget_ = is_budget_wanted}

-- Whether the execution, the flow or the budget of a line matches; looked up once a call, while its record exists.
function M.filter(tag, A)
  local is_filtered = tenant.scope or A.namespace .. A.lane_id .. A.execution_kind .. A.flow_id ~= ""
  if not is_filtered then return function() return true end end
  local known = {}
  return function(name, id)
    if known[id] == nil then
      local of_its_kind = OTHERS[name:match("^%a+_")]
      known[id] = (of_its_kind or is_execution_wanted)(tag, A, of_its_kind and id:sub(#tag + 2) or id)
    end
    return known[id]
  end
end

return M
