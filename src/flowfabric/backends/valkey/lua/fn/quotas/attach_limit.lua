--- Attach a budget or quota policy to a scope in one partition, or detach it; claims respect it from then on.
-- @keys    attachments
-- @args    scope:id kind:id limit_id:id is_attached:nat
-- @reply   attached
-- @errors  invalid_input
-- @repeat  safe
-- @uses    bounds limit_scopes reply
local MOST = bounds.MAX_SCOPE_LIMITS
local KINDS = {budget = true, quota = true}

return function(K, A)
  if not K.attachments:find("^ff:attach:%b{}$") then
    return reply.invalid("attachments", "ff:attach:{tag}", K.attachments)
  end
  if not KINDS[A.kind] then return reply.invalid("kind", "budget or quota", A.kind) end
  local before = redis.call("HGET", K.attachments, A.scope)
  local after, count = limit_scopes.changed(before or nil, A.kind, A.limit_id, A.is_attached == 1)
  if (count or 0) > MOST then return reply.invalid("limit_id", "at most " .. MOST .. " of one scope", A.limit_id) end

  if after then
    redis.call("HSET", K.attachments, A.scope, after)
  else
    redis.call("HDEL", K.attachments, A.scope)
  end
  return reply.ok(after or "")
end
