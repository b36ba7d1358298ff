-- Capability tokens: the grammar, and whether a worker offers what an execution requires.
-- @uses bounds
local M = {}

local MAX_BYTES, MAX_TOKENS = bounds.CAPABILITIES_CSV_MAX_BYTES, bounds.MAX_CAPABILITIES

-- The capability that work needs when the workers that met it do not have its task.
local TASK = "ff.task:"

local function tokens_of(csv)
  local out = {}
  for token in csv:gmatch("[^,]+") do out[#out + 1] = token end
  return out
end

-- Sorted CSV of a decoded JSON list, or nil and the problem.
function M.from_list(list)
  local tokens = {}
  for _, token in ipairs(list) do
    if type(token) ~= "string" then return nil, "required:non_string_token" end
    if token == "" then return nil, "required:empty_token" end
    if token:find(",", 1, true) then return nil, "required:comma_in_token" end
    if token:find("[%z\1-\32\127]") then return nil, "required:control_or_whitespace" end
    tokens[#tokens + 1] = token
  end
  if #tokens > MAX_TOKENS then return nil, "required:too_many_tokens" end
  table.sort(tokens)
  local csv = table.concat(tokens, ",")
  if #csv > MAX_BYTES then return nil, "required:too_many_bytes" end
  return csv
end

local function too_large(side, csv)
  if csv == "" then return nil end
  if #csv > MAX_BYTES then return side .. ":too_many_bytes" end
  if #tokens_of(csv) > MAX_TOKENS then return side .. ":too_many_tokens" end
end

-- The name of a task as part of a token; core/rules/tasks.py is the same rule in Python.
function M.escaped(kind)
  return (kind:gsub("[^%w%._:/%-]", function(char) return string.format("%%%02X", char:byte()) end))
end

function M.of_task(kind) return TASK .. M.escaped(kind) end

-- kinds: escaped names, each between commas.
function M.is_named(kinds, name) return kinds:find("," .. name .. ",", 1, true) ~= nil end

function M.sorted(csv)
  local tokens = tokens_of(csv)
  table.sort(tokens)
  return table.concat(tokens, ",")
end

local function has_token(has, kinds, token)
  if token:sub(1, #TASK) ~= TASK then return has[token] end
  return not kinds or M.is_named(kinds, token:sub(#TASK + 1))
end

-- nil when the worker offers everything; otherwise the code and detail of the refusal. kinds: the
-- tasks that it has; a worker that names none may take any.
function M.check(required, offered, kinds)
  required = required or ""
  local wrong = too_large("required", required) or too_large("worker", offered)
  if wrong then return "invalid_capabilities", wrong end
  if required == "" then return nil end
  local has, missing = {}, {}
  for _, token in ipairs(tokens_of(offered)) do has[token] = true end
  for _, token in ipairs(tokens_of(required)) do
    if not has_token(has, kinds, token) then missing[#missing + 1] = token end
  end
  if #missing > 0 then
    table.sort(missing)
    return "capability_mismatch", table.concat(missing, ",")
  end
end

return M
