-- The summary of an attempt: one JSON document that summary frames patch, readable at any time.
-- @uses digits merge_patch record reply
local M = {}

M.PATCH_KIND = "json-merge-patch"
local MAX_BYTES = 262144

function M.key(x, index) return record.attempt_key(x, index) .. ":summary" end

-- The document, to be patched in memory, and its version: the number of patches. A refusal when the
-- stored text is unreadable.
function M.load(x, index)
  local key = M.key(x, index)
  local found = redis.call("HMGET", key, "document", "version", "first_applied_ms")
  local is_readable, object = pcall(merge_patch.read, found[1] or "")
  if not is_readable then return nil, reply.refuse("corruption", "the summary of attempt " .. index) end
  return {key = key, object = object, version = tonumber(found[2] or 0), is_new = not found[3]}
end

-- A refusal or nil.
function M.patch(s, text)
  local wrong = merge_patch.apply(s.object, text)
  if wrong == "patch_depth_exceeded" then
    return reply.invalid("payload", "at most " .. merge_patch.MAX_DEPTH .. " levels (patch_depth_exceeded)", text)
  end
  if wrong then return reply.invalid("payload", wrong, text) end
end

-- The document's text, when it is not too large.
function M.text(s)
  local text = merge_patch.text(s.object)
  if #text > MAX_BYTES then return nil, reply.refuse("retention_limit_exceeded", MAX_BYTES) end
  return text
end

function M.store(s, text, now)
  local at = digits.of(now)
  redis.call("HSET", s.key, "document", text, "version", tostring(s.version), "last_updated_ms", at)
  if s.is_new then redis.call("HSET", s.key, "patch_kind", M.PATCH_KIND, "first_applied_ms", at) end
end

return M
