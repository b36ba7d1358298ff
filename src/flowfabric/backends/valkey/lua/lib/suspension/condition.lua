-- The condition of a suspension: as given, as stored, and as text for a reader.
-- @uses bounds composite reply
local M = {}

local NAME = "resume_condition_json"
local MAX_BYTES, MAX_NAMES = bounds.CONDITION_JSON_MAX_BYTES, bounds.MAX_CONDITION_NODES

local function invalid(member, expected, got) return nil, reply.invalid(NAME, member .. " " .. expected, got) end

local function given(value, default)
  if value == nil or value == cjson.null then return default end
  return value
end

local function is_list_of_text(list)
  if type(list) ~= "table" then return false end
  local count = 0
  for _, name in pairs(list) do
    if type(name) ~= "string" then return false end
    count = count + 1
  end
  return count == #list and count <= MAX_NAMES
end

-- Each name is used up by one signal; without names, any single signal suffices. A condition that
-- can never be met is refused (D5).
local function simple(object)
  local kind = given(object.condition_type, "signal_set")
  if kind ~= "signal_set" then return invalid("condition_type", "signal_set", kind) end
  local names = given(object.required_signal_names, {})
  if not is_list_of_text(names) then return invalid("required_signal_names", "a list of names", tostring(names)) end
  local mode, minimum = given(object.signal_match_mode, "any"), given(object.minimum_signal_count, 1)
  if type(mode) ~= "string" then return invalid("signal_match_mode", "any or all", mode) end
  if type(minimum) ~= "number" or minimum < 1 or minimum % 1 ~= 0 then
    return invalid("minimum_signal_count", "a whole number from 1", minimum)
  end
  local total = math.max(#names, 1)
  if mode ~= "all" and minimum > total then
    return invalid("minimum_signal_count", "at most " .. total .. ", since each name counts once", minimum)
  end
  return {names = names, needed = mode == "all" and total or minimum, mode = mode, minimum = minimum, total = total}
end

-- Most suspensions wait for one signal of a name. This reads them as JSON would, at a fraction of
-- the cost; a name with escapes is left to JSON.
local function of_name(text)
  local name = text and text:match('^{"required_signal_names":%["([^"\\%c]+)"%]}$')
  return name and {names = {name}, needed = 1, mode = "any", minimum = 1, total = 1, text = text}
end

local function decode(text)
  if #text > MAX_BYTES then return nil, reply.invalid(NAME, "at most " .. MAX_BYTES .. " bytes", #text) end
  local ok, object = pcall(cjson.decode, text)
  if not ok or type(object) ~= "table" then return nil, reply.invalid(NAME, "a JSON object", text) end
  return object
end

-- The condition, or nil and a refusal. keys: a set, of the suspension's waitpoints.
function M.parse(text, keys)
  local usual = of_name(text)
  if usual and #text <= MAX_BYTES then return usual end
  local object, refusal = decode(text)
  if refusal then return nil, refusal end
  if not given(object.composite, false) then return simple(object) end
  if object.v ~= 1 then return invalid("v", "1 (unknown_condition_version)", object.v) end
  refusal = composite.check(object.tree, keys)
  if refusal then return nil, refusal end
  return {tree = object.tree}
end

local function kept(condition)
  if condition.tree then return {v = 1, composite = true, tree = condition.tree} end
  return {
    required_signal_names = #condition.names > 0 and condition.names or nil,
    signal_match_mode = condition.mode ~= "any" and condition.mode or nil,
    minimum_signal_count = condition.minimum ~= 1 and condition.minimum or nil,
  }
end

-- As it is stored: usual values are left out, and "" is any one signal. Or nil and a refusal: JSON
-- can hold numbers that cannot be written again.
function M.text(condition)
  if condition.text then return condition.text end
  local members = kept(condition)
  if not next(members) then return "" end
  local ok, text = pcall(cjson.encode, members)
  if not ok then return nil, reply.invalid(NAME, "JSON with finite numbers", "") end
  return text
end

-- The stored condition.
function M.stored(text)
  local usual = of_name(text)
  if usual then return usual end
  local object = cjson.decode(text or "{}")
  return object.tree and {tree = object.tree} or simple(object)
end

-- Does a signal of this name count at a waitpoint?
function M.takes(condition, waitpoint_key, name)
  if condition.tree then
    for _, leaf in ipairs(composite.leaves(condition.tree, "", waitpoint_key, {})) do
      if composite.accepts(leaf.node.matcher, name) then return true end
    end
    return false
  end
  for i = 1, condition.total do
    local wanted = condition.names[i] or ""
    if wanted == "" or wanted == name then return true end
  end
  return false
end

-- The names that a waitpoint waits for; none where any name will do.
function M.names(condition, waitpoint_key)
  local names = {}
  if not condition.tree then
    for _, name in ipairs(condition.names) do
      if name ~= "" then names[#names + 1] = name end
    end
    return names
  end
  for _, leaf in ipairs(composite.leaves(condition.tree, "", waitpoint_key, {})) do
    local matcher = leaf.node.matcher
    if matcher and matcher.name then names[#names + 1] = matcher.name end
  end
  return names
end

return M
