-- Caller-owned tags of an execution.
-- @uses bounds index_key reply
local M = {}

-- Flat list of field and value from a JSON object of scalars; nested values and nulls are refused.
function M.from_json(text)
  if text == "" or text == "{}" or text == "null" then return {} end
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

-- Write tags and list the execution under them; a changed tag moves it.
function M.write(x, fields)
  local key = x.base .. ":tags"
  for i = 1, #fields, 2 do
    local old = redis.call("HGET", key, fields[i])
    if old then redis.call("ZREM", index_key.label(x, fields[i], old), x.id) end
    redis.call("ZADD", index_key.label(x, fields[i], fields[i + 1]), x.created_at, x.id)
  end
  if #fields > 0 then redis.call("HSET", key, unpack(fields)) end
end

-- Delete all tags.
function M.clear(x)
  local key = x.base .. ":tags"
  local fields = redis.call("HGETALL", key)
  for i = 1, #fields, 2 do redis.call("ZREM", index_key.label(x, fields[i], fields[i + 1]), x.id) end
  redis.call("DEL", key)
end

-- Whether a tag may have this name: a short line of text, without control characters (C0, DEL, C1 in UTF-8).
function M.is_key(text)
  if #text == 0 or #text > bounds.TAG_KEY_MAX_BYTES then return false end
  return not (text:find("%c") or text:find("%z") or text:find("\194[\128-\159]"))
end

return M
