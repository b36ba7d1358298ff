--- Read the summary of an attempt: the document that its summary frames produced.
-- @keys    summary
-- @args
-- @reply   document version patch_kind last_updated_ms first_applied_ms
-- @flags   no-writes
-- @repeat  safe
-- @uses    record reply tenant
-- The key names the attempt of an execution.
local function is_hidden(key)
  local tag, id = key:match("^ff:attempt:(%b{}):(.+):%d+:summary$")
  return not id or not record.load("ff:exec:" .. tag .. ":" .. id .. ":core")
end

return function(K, _)
  if tenant.scope and is_hidden(K.summary) then return reply.ok("", "0", "", "0", "0") end
  local found = redis.call("HMGET", K.summary, "document", "version", "patch_kind", "last_updated_ms",
    "first_applied_ms")
  return reply.ok(found[1] or "", found[2] or "0", found[3] or "", found[4] or "0", found[5] or "0")
end
