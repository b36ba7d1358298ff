--- Sign new waitpoint tokens with another secret; tokens of the old one count during its grace.
-- @keys    hmac_secrets
-- @args    new_kid new_secret_hex grace_ms algorithm=sha1
-- @reply   outcome previous_kid new_kid gc_count
-- @errors  invalid_input invalid_kid invalid_secret_hex invalid_grace_ms rotation_conflict
-- @repeat  safe
-- @uses    clock digits reply secret
local MAX_GRACE = 9007199254740991

local function read_grace(text)
  local number = text:match("^%d+$") and tonumber(text)
  return number and number <= MAX_GRACE and number or nil
end

-- Forget the secrets whose grace is over, never the current one; how many (D9).
local function collect_garbage(key, current, now)
  local flat, gone = redis.call("HGETALL", key), 0
  for i = 1, #flat, 2 do
    local kid = flat[i]:match("^expires_at:(.+)$")
    if kid and kid ~= current and (tonumber(flat[i + 1]) or 0) < now then
      redis.call("HDEL", key, "expires_at:" .. kid, "secret:" .. kid, "algorithm:" .. kid)
      gone = gone + 1
    end
  end
  return gone
end

return function(K, A)
  local now, key, grace = clock.now_ms(), K.hmac_secrets, read_grace(A.grace_ms)

  local refusal = secret.check_key(key) or secret.check(A.new_kid, A.new_secret_hex, A.algorithm)
  if refusal then return refusal end
  if not grace then return reply.refuse("invalid_grace_ms", A.grace_ms:sub(1, 40)) end
  local old = redis.call("HGET", key, "current_kid")
  local known = secret.of(key, A.new_kid)
  if known and (old ~= A.new_kid or not secret.is_same(known, A.new_secret_hex, A.algorithm)) then
    return reply.refuse("rotation_conflict", A.new_kid)
  end
  if known then return reply.ok("noop", A.new_kid) end

  if old == A.new_kid then
    secret.install(key, A.new_kid, A.new_secret_hex, A.algorithm)
    return reply.ok("noop", A.new_kid)
  end
  local gone = collect_garbage(key, old, now)
  if old then
    local until_ms = digits.of(now + grace)
    redis.call("HSET", key, "expires_at:" .. old, until_ms, "previous_kid", old, "previous_expires_at", until_ms)
  end
  secret.install(key, A.new_kid, A.new_secret_hex, A.algorithm)

  return reply.ok("rotated", old or "", A.new_kid, gone)
end
