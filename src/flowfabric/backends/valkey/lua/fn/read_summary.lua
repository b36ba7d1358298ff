--- Read the summary of an attempt: the document that its summary frames made.
-- @keys    summary
-- @args
-- @reply   document version patch_kind last_updated_ms first_applied_ms
-- @flags   no-writes
-- @repeat  safe
-- @uses    reply
return function(K, _)
  local found = redis.call("HMGET", K.summary, "document", "version", "patch_kind", "last_updated_ms",
    "first_applied_ms")
  return reply.ok(found[1] or "", found[2] or "0", found[3] or "", found[4] or "0", found[5] or "0")
end
