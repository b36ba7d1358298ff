-- Caller-owned labels of an execution.
-- @uses reply
local M = {}

-- Flat list of field, value from a JSON object of scalars; nested values and nulls are refused.
function M.from_json(text)
  if text == "" or text == "{}" then return {} end
  local ok, object = pcall(cjson.decode, text)
  if not ok or type(object) ~= "table" then return nil, reply.invalid("tags_json", "a JSON object", text) end
  local fields = {}
  for name, value in pairs(object) do
    if type(name) ~= "string" then return nil, reply.invalid("tags_json", "a JSON object", text) end
    if type(value) == "table" or value == cjson.null then
      return nil, reply.invalid("tags_json." .. name, "text", cjson.encode(value))
    end
    fields[#fields + 1] = name
    fields[#fields + 1] = tostring(value)
  end
  return fields
end

-- Tags set later live in the namespace of their owner: `team.key`.
function M.is_key(text) return text:find("^[a-z][a-z0-9_]*%.[^.]") ~= nil end

return M
