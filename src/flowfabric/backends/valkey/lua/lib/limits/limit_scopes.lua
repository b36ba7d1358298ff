-- The budgets and quota policies of an execution: its own, and those of its lane, namespace and
-- flow. Each partition keeps the attachments of scopes, so that a claim need not ask elsewhere.
-- @uses suspension
local M = {}

local DEFAULT_NAMESPACE = "default"

function M.key(tag) return "ff:attach:" .. tag end

local function scopes(x)
  local names = {"lane:" .. x.lane_id, "namespace:" .. (x.namespace or DEFAULT_NAMESPACE), "execution:" .. x.id}
  if x.flow_id then names[4] = "flow:" .. x.flow_id end
  return names
end

local function add(list, csv)
  for id in (csv or ""):gmatch("[^,]+") do
    if not list[id] then
      list[id] = true
      list[#list + 1] = id
    end
  end
end

-- The attachments of its scopes. Most partitions have none at all; a batch checks that once.
local function of_scopes(x)
  local memo = x.writes or x.beside or x
  if memo.has_attached == nil then memo.has_attached = redis.call("EXISTS", M.key(x.tag)) == 1 end
  if not memo.has_attached then return nil end
  local names = scopes(x)
  return redis.call("HMGET", M.key(x.tag), unpack(names)), #names
end

-- The execution, or the flow, is about to be deleted.
function M.forget(tag, kind, id) redis.call("HDEL", M.key(tag), kind .. ":" .. id) end

-- It was suspended for a decision about its budget and resumes with the answer. Only the execution
-- can act on it, so budgets do not block its start.
local function is_answered(x)
  if x.attempt_state ~= "attempt_interrupted" then return false end
  return redis.call("HGET", suspension.key(x), "reason_code") == "paused_by_budget"
end

-- {budgets, quotas, is_answered}, lists of ids; nil when it has none. All of them apply, so the
-- strictest decides.
function M.of(x)
  local found, count = of_scopes(x)
  if not found and not x.budget_ids and not x.quota_policy_id then return nil end
  local budgets, quotas = {}, {}
  add(budgets, x.budget_ids)
  add(quotas, x.quota_policy_id)
  for i = 1, count or 0 do
    local of_budgets, of_quotas = (found[i] or "|"):match("^(.-)|(.*)$")
    add(budgets, of_budgets)
    add(quotas, of_quotas)
  end
  if #budgets + #quotas == 0 then return nil end
  return {budgets = budgets, quotas = quotas, is_answered = #budgets > 0 and is_answered(x)}
end

-- The same for an execution without its flow, which takes them over: lists separated by commas. Those of lane and
-- namespace apply anyway.
function M.taken_over(x)
  local budgets, quotas = {}, {}
  add(budgets, x.budget_ids)
  add(quotas, x.quota_policy_id)
  for _, scope in ipairs({"execution:" .. x.id, x.flow_id and "flow:" .. x.flow_id}) do
    local of_budgets, of_quotas = (redis.call("HGET", M.key(x.tag), scope) or "|"):match("^(.-)|(.*)$")
    add(budgets, of_budgets)
    add(quotas, of_quotas)
  end
  return table.concat(budgets, ","), table.concat(quotas, ",")
end

-- The same text with an id added or removed; nil when nothing is left.
function M.changed(text, kind, id, is_added)
  local parts, list, kept = {}, {}, {}
  parts.budget, parts.quota = (text or "|"):match("^(.-)|(.*)$")
  add(list, parts[kind])
  if is_added then add(list, id) end
  for _, each in ipairs(list) do
    if is_added or each ~= id then kept[#kept + 1] = each end
  end
  parts[kind] = table.concat(kept, ",")
  if parts.budget == "" and parts.quota == "" then return nil end
  return parts.budget .. "|" .. parts.quota, #kept
end

return M
