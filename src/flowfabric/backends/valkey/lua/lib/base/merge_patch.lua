-- JSON merge patch (RFC 7396) on text. Values other than objects keep their text: no number loses digits, and an empty
-- list stays a list. An object is {order, of}: its keys in order, and by key the text of a value or an object.
local M = {}

M.MAX_DEPTH = 16
-- A patch cannot set a member to null, because null removes it; this text stands for null.
local NULL = '"__ff_null__"'

local function new() return {order = {}, of = {}} end

local function set(object, key, value)
  if object.of[key] == nil then object.order[#object.order + 1] = key end
  object.of[key] = value
end

local function skip(text, at) return text:find("[^ \t\r\n]", at) end

local function string_end(text, at)
  while true do
    at = text:find('["\\]', at + 1)
    if text:byte(at) == 34 then return at end
    at = at + 1
  end
end

-- Lists, and objects as a whole: up to the bracket that closes them.
local function bracket_end(text, at)
  local depth = 0
  repeat
    local found = text:find('["%[%]{}]', at)
    local what = text:byte(found)
    if what == 34 then
      found = string_end(text, found)
    else
      depth = depth + ((what == 91 or what == 123) and 1 or -1)
    end
    at = found + 1
  until depth == 0
  return at - 1
end

local function value_end(text, at)
  local first = text:byte(at)
  if first == 34 then return string_end(text, at) end
  if first == 91 or first == 123 then return bracket_end(text, at) end
  return (text:find("[,%]} \t\r\n]", at) or #text + 1) - 1
end

-- The same key may be spelled in several ways.
local function plain_key(text)
  if not text:find("\\", 1, true) then return text end
  return cjson.encode(cjson.decode("[" .. text .. "]")[1])
end

-- An object one level deep; the objects in it stay text. The text must be known to be JSON.
local function open(text)
  local object, at = new(), skip(text, text:find("{", 1, true) + 1)
  while text:byte(at) ~= 125 do
    local key_end = string_end(text, at)
    local key = plain_key(text:sub(at, key_end))
    at = skip(text, text:find(":", key_end + 1, true) + 1)
    local last = value_end(text, at)
    set(object, key, text:sub(at, last))
    at = skip(text, last + 1)
    if text:byte(at) == 44 then at = skip(text, at + 1) end
  end
  return object
end

local function is_object(value) return type(value) == "table" or type(value) == "string" and value:byte(1) == 123 end

local function opened(value)
  if not is_object(value) then return new() end
  return type(value) == "table" and value or open(value)
end

-- The server's decoder also accepts numbers that are not JSON.
local function is_json(value)
  local first = value:byte(1)
  return first == 34 or first == 91 or value == "true" or value == "false"
    or value:find("^%-?%d+%.?%d*[eE]?[+-]?%d*$") ~= nil
end

-- Returns nil, or the problem with the patch.
local function apply(target, patch, depth)
  if depth > M.MAX_DEPTH then return "patch_depth_exceeded" end
  for _, key in ipairs(patch.order) do
    local value = patch.of[key]
    if value == "null" then
      target.of[key] = nil
      for at, known in ipairs(target.order) do
        if known == key then table.remove(target.order, at) break end
      end
    elseif is_object(value) then
      local inner = opened(target.of[key])
      local wrong = apply(inner, open(value), depth + 1)
      if wrong then return wrong end
      set(target, key, inner)
    elseif not is_json(value) then
      return "a JSON object"
    else
      set(target, key, value == NULL and "null" or value)
    end
  end
end

-- The object of a stored document; an error when it cannot be read.
function M.read(text)
  if text == "" then return new() end
  assert(type(cjson.decode(text)) == "table")
  return open(text)
end

-- Apply a patch, given as any text, to an object. Returns nil, or the problem.
function M.apply(target, text)
  local is_readable, value = pcall(cjson.decode, text)
  if not is_readable or type(value) ~= "table" or text:byte(skip(text, 1)) ~= 123 then return "a JSON object" end
  return apply(target, open(text), 1)
end

function M.text(object)
  local parts = {}
  for i, key in ipairs(object.order) do
    local value = object.of[key]
    parts[i] = key .. ":" .. (type(value) == "table" and M.text(value) or value)
  end
  return "{" .. table.concat(parts, ",") .. "}"
end

return M
