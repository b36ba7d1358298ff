-- The execution policy: refused when malformed, read back where a limit is needed (G11).
-- @uses bounds capability reply
local M = {}

-- Absent and null mean the same, except where the wire says otherwise.
local function given(value) return value ~= nil and value ~= cjson.null end

local MAX_COUNT, MAX_MULTIPLIER = bounds.TIMESTAMP_MAX_MS, bounds.MAX_BACKOFF_MULTIPLIER

local function is_count(value)
  return type(value) == "number" and value >= 0 and value <= MAX_COUNT and value == math.floor(value)
end

local function check_counts(object, path, names)
  for _, name in ipairs(names) do
    if given(object[name]) and not is_count(object[name]) then return path .. name .. ":not_a_count" end
  end
end

local function check_backoff(backoff)
  if not given(backoff) then return nil end
  if type(backoff) ~= "table" then return "retry_policy.backoff:not_object" end
  local wrong = check_counts(backoff, "retry_policy.backoff.", {"delay_ms", "initial_delay_ms", "max_delay_ms"})
  if wrong then return wrong end
  local multiplier = backoff.multiplier
  if given(multiplier) and (type(multiplier) ~= "number" or multiplier < 1 or multiplier > MAX_MULTIPLIER) then
    return "retry_policy.backoff.multiplier:out_of_range"
  end
end

local function check_sections(policy)
  for _, name in ipairs({"retry_policy", "timeout_policy", "stream_policy"}) do
    if given(policy[name]) and type(policy[name]) ~= "table" then return name .. ":not_object" end
  end
  local retries, timeout, output = policy.retry_policy, policy.timeout_policy, policy.stream_policy
  return check_counts(policy, "", {"max_reclaim_count", "max_replay_count"})
    or given(retries) and (check_counts(retries, "retry_policy.", {"max_retries"}) or check_backoff(retries.backoff))
    or given(timeout) and check_counts(timeout, "timeout_policy.", {"attempt_timeout_ms", "execution_deadline_ms"})
    or given(output) and check_counts(output, "stream_policy.", {"retention_ttl_ms"})
    or nil
end

local function required_capabilities(policy)
  local routing = policy.routing_requirements
  if routing == nil then return "" end
  if type(routing) ~= "table" then
    return nil, reply.refuse("invalid_policy_json", "routing_requirements:not_object")
  end
  local list = routing.required_capabilities
  if list == nil then return "" end
  if type(list) ~= "table" then return nil, reply.refuse("invalid_capabilities", "required:not_array") end
  local csv, wrong = capability.from_list(list)
  if wrong then return nil, reply.refuse("invalid_capabilities", wrong) end
  return csv
end

local MOST_LIMITS = bounds.MAX_BUDGET_IDS

-- The ids of its budgets or quota policies, separated by commas; nil and a refusal for a bad list.
local function ids(policy, name)
  local list, out = policy[name], {}
  if not given(list) then return nil end
  if type(list) ~= "table" then return nil, reply.refuse("invalid_policy_json", name .. ":not_array") end
  for i, id in ipairs(list) do
    if type(id) ~= "string" or not id:find("^[%w-]+$") then
      return nil, reply.refuse("invalid_policy_json", name .. ":not_an_id")
    end
    out[i] = id
  end
  if #out > MOST_LIMITS then return nil, reply.refuse("invalid_policy_json", name .. ":too_many") end
  return #out > 0 and table.concat(out, ",") or nil
end

-- The parts of a policy that create keeps in the record: {required_capabilities,
-- attempt_timeout_ms, execution_deadline_ms, retention_ttl_ms, budget_ids, quota_policy_ids}.
function M.digest(text)
  if text == "" or text == "{}" or text == "null" then return {required_capabilities = ""} end
  local ok, policy = pcall(cjson.decode, text)
  if not ok or type(policy) ~= "table" then return nil, reply.refuse("invalid_policy_json", "malformed") end
  local csv, refusal = required_capabilities(policy)
  if refusal then return nil, refusal end
  local wrong = check_sections(policy)
  if wrong then return nil, reply.refuse("invalid_policy_json", wrong) end
  local budgets, bad_budgets = ids(policy, "budget_ids")
  local quotas, bad_quotas = ids(policy, "quota_policy_ids")
  if bad_budgets or bad_quotas then return nil, bad_budgets or bad_quotas end
  local timeout = given(policy.timeout_policy) and policy.timeout_policy or {}
  return {
    required_capabilities = csv,
    attempt_timeout_ms = given(timeout.attempt_timeout_ms) and timeout.attempt_timeout_ms or nil,
    execution_deadline_ms = M.deadline_of(policy),
    retention_ttl_ms = given(policy.stream_policy) and given(policy.stream_policy.retention_ttl_ms)
      and policy.stream_policy.retention_ttl_ms or nil,
    budget_ids = budgets, quota_policy_ids = quotas,
  }
end

-- The stored policy as a table; empty when there is none or it cannot be read.
function M.stored(x)
  local text = redis.call("GET", x.base .. ":policy")
  local ok, policy = pcall(cjson.decode, text or "{}")
  return ok and type(policy) == "table" and policy or {}
end

function M.count(policy, name, default)
  return is_count(policy[name]) and policy[name] or default
end

-- The time from creation or replay to the deadline, if the policy has one.
function M.deadline_of(policy)
  local timeout = given(policy.timeout_policy) and policy.timeout_policy or {}
  return is_count(timeout.execution_deadline_ms) and timeout.execution_deadline_ms or nil
end

function M.retry_of(policy)
  return given(policy.retry_policy) and policy.retry_policy or nil
end

-- A retry policy given as text: empty, unreadable or null means no retries.
function M.retry_from_text(text)
  local ok, policy = pcall(cjson.decode, text)
  return ok and type(policy) == "table" and policy or nil
end

return M
