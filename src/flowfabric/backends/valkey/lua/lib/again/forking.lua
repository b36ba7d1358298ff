-- A fork: a new execution that begins with records of another one.
-- @uses content continuing copied_wait digits limit_scopes record reply steps suspension vectors
local M = {}

M.TAG = "flowfabric.forked_from"

-- Records that are about the source alone: its waitpoints, and what its attempts have reported.
local OWN = {"^%d+:ff:waitpoint:", "^%d+:ff:spent$"}

-- Records about steps, whose names may end like a pointer.
local OF_STEPS = {["failed:"] = true, ["output:"] = true}

local function is_own(field) return (field:find(OWN[1]) or field:find(OWN[2])) ~= nil end

-- The wait whose end a record is, by its pointer; nil for any other record.
local function wait_of(field)
  local pointer = field:match("^%d+:ff:(.+#%d+)$")
  return pointer and not OF_STEPS[pointer:match("^%a+:") or ""] and pointer or nil
end

-- How a step says which wait came before it.
local function mark(pointer) return redis.sha1hex(pointer):sub(1, 12) end

local MOST_SHOWN = 20
local function unknown_step(fields, A)
  local names = {}
  for _, field in ipairs(fields) do
    local occurrence, name = field:match("^(%d+):(.*)$")
    if name:sub(1, 3) ~= "ff:" and #names < MOST_SHOWN then names[#names + 1] = name .. "#" .. occurrence end
  end
  local known = #names > 0 and "one of the recorded steps " .. table.concat(names, ", ") or "none: no step is recorded"
  return reply.invalid("from_step", known, A.from_step .. "#" .. digits.of(A.occurrence))
end

local function position(fields, wanted)
  for at, field in ipairs(fields) do
    if field == wanted then return at end
  end
end

-- Ends of waits are recorded late, before the next wait. Those up to the wait before the step
-- belong to it. Answers whether that wait was found.
local function add_waits(chosen, fields, cut, before)
  local found = false
  for at = 1, #fields do
    local pointer = wait_of(fields[at])
    local is_last = pointer and mark(pointer) == before
    if pointer and found and not is_last then return true end
    if pointer and at > cut then chosen[#chosen + 1] = fields[at] end
    found = found or is_last
  end
  return found
end

-- The fields of the records to copy, and the last suspension if its end is among them; or nil and a
-- refusal.
function M.choose(x, A)
  local fields, chosen, last = steps.order(x), {}, suspension.load(x)
  local cut = A.from_step ~= "" and position(fields, steps.field(A.from_step, A.occurrence)) or nil
  if A.from_step ~= "" and not cut then return nil, unknown_step(fields, A) end
  for at = 1, (cut or #fields + 1) - 1 do
    if not is_own(fields[at]) then chosen[#chosen + 1] = fields[at] end
  end
  if not continuing.went_on(last) then last = nil end
  if cut then
    local before = (steps.find(x, fields[cut])):match("^[^:]*:[^:]*:(.+)$")
    local is_recorded = before and add_waits(chosen, fields, cut, before)
    if not before or is_recorded or not last or mark(last.continuation_metadata_pointer or "") ~= before then
      last = nil
    end
  end
  return {fields = chosen, last = last}
end

-- {encoding, result} by field, of copied steps, without their old output; or nil and a refusal.
function M.changed(plan, given)
  local known, out = {}, {}
  for _, field in ipairs(plan.fields) do known[field] = true end
  for i = 1, #given, 4 do
    local field = steps.field(given[i], tonumber(given[i + 1]) or 0)
    if not known[field] then
      return nil, reply.invalid("changed", "steps that are recorded before from_step", given[i] .. "#" .. given[i + 1])
    end
    out[field] = {given[i + 2], given[i + 3] or ""}
    out[steps.field("ff:output:" .. given[i], tonumber(given[i + 1]) or 0)] = {"json", "{}"}
  end
  return out
end

local function labels(x)
  local out, flat = {}, redis.call("HGETALL", x.base .. ":tags")
  for i = 1, #flat, 2 do
    if flat[i] ~= M.TAG then
      out[#out + 1] = flat[i]
      out[#out + 1] = flat[i + 1]
    end
  end
  out[#out + 1], out[#out + 2] = M.TAG, x.id
  return out
end

-- The content of the new execution, as create would read it; or nil and a refusal. A deadline of the
-- policy starts with it.
function M.content(x, A, plan, now)
  local has_input = A.has_input == "1"
  local new, refusal = content.read({
    namespace = x.namespace or "default", lane_id = x.lane_id, execution_kind = x.execution_kind or "",
    priority = tonumber(x.priority or 0), creator_identity = x.creator_identity or "",
    policy_json = redis.call("GET", x.base .. ":policy") or "", tags_json = "",
    input_payload = has_input and A.input_payload or redis.call("GET", x.base .. ":payload") or "",
    payload_encoding = has_input and A.payload_encoding or x.payload_encoding or "",
    concurrency_key = x.concurrency_key or "",
  }, now, now)
  if refusal then return nil, refusal end
  new.labels = labels(x)
  local budgets, quotas = limit_scopes.taken_over(x)
  for i = 1, #new.fields, 2 do
    if new.fields[i] == "budget_ids" then new.fields[i + 1] = budgets end
    if new.fields[i] == "quota_policy_id" then new.fields[i + 1] = quotas end
  end
  if #plan.fields > 0 then
    new.fields[#new.fields + 1], new.fields[#new.fields + 2] = "step_count", digits.of(#plan.fields)
  end
  -- The worker reads the records of an attempt that is not the first one.
  if #plan.fields > 0 or plan.last then new.state = vectors.WAITING_RETRY end
  return new
end

-- Give the new execution its records.
function M.give(x, fork, plan, changed)
  steps.copy(x, fork, plan.fields, changed)
  if plan.last then copied_wait.give(x, fork, plan.last) end
end

-- The names and keys of an id in the partition of the source; nil for any other text.
function M.at(x, id)
  if id:sub(1, #x.tag + 1) ~= x.tag .. ":" or not id:find("^[%x-]+$", #x.tag + 2) then return nil end
  return record.at("ff:exec:" .. x.tag .. ":" .. id .. ":core")
end

-- Was it forked from this execution?
function M.is_of(fork, x) return redis.call("HGET", fork.base .. ":tags", M.TAG) == x.id end

return M
