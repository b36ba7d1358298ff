--- Rotate the waitpoint secret; tokens of the old one stay valid during its grace period, unless graces end.
-- @keys    hmac_secrets
-- @args    new_kid new_secret_hex grace_ms algorithm=sha1 end_graces=
-- @reply   outcome previous_kid new_kid gc_count
-- @errors  invalid_input invalid_kid invalid_secret_hex invalid_grace_ms rotation_conflict
-- @repeat  safe
-- @uses    bounds clock digits reply secret
local MAX_GRACE = bounds.MAX_SAFE_INTEGER

local function read_grace(text)
  local number = text:match("^%d+$") and tonumber(text)
  return number and number <= MAX_GRACE and number or nil
end

-- Refuse a grace together with end_graces: a repeated call would end it.
local function check_graces(A, grace)
  local ends = A.end_graces
  if ends ~= "" and ends ~= "1" then return reply.invalid("end_graces", "1, or nothing", ends) end
  if not grace or ends == "1" and grace > 0 then
    return reply.refuse("invalid_grace_ms", A.grace_ms:sub(1, 40))
  end
end

-- The end of each secret's grace by kid; the current one has none (D9).
local function graces_of(key, current)
  local flat, found = redis.call("HGETALL", key), {}
  for i = 1, #flat, 2 do
    local kid = flat[i]:match("^expires_at:(.+)$")
    if kid and kid ~= current then found[kid] = tonumber(flat[i + 1]) or 0 end
  end
  return found
end

-- Delete the secrets whose grace is over; returns how many.
local function collect_garbage(key, graces, now)
  local gone = 0
  for kid, until_ms in pairs(graces) do
    if until_ms < now then
      redis.call("HDEL", key, "expires_at:" .. kid, "secret:" .. kid, "algorithm:" .. kid)
      gone = gone + 1
    end
  end
  return gone
end

-- Their kids are kept until they are collected, so that a late rotation to one of them is refused.
local function end_all(key, graces, now)
  for kid, until_ms in pairs(graces) do
    if until_ms >= now then redis.call("HSET", key, "expires_at:" .. kid, digits.of(now - 1)) end
  end
  secret.publish(key)
end

return function(K, A)
  local now, key, grace, ends = clock.now_ms(), K.hmac_secrets, read_grace(A.grace_ms), A.end_graces == "1"

  local refusal = secret.check_key(key) or secret.check(A.new_kid, A.new_secret_hex, A.algorithm)
    or check_graces(A, grace)
  if refusal then return refusal end
  local old = redis.call("HGET", key, "current_kid")
  local known = secret.of(key, A.new_kid)
  if known and (old ~= A.new_kid or not secret.is_same(known, A.new_secret_hex, A.algorithm)) then
    return reply.refuse("rotation_conflict", A.new_kid)
  end

  local graces = graces_of(key, old)
  if ends then end_all(key, graces, now) end
  if known then return reply.ok("noop", A.new_kid) end
  if old == A.new_kid then
    secret.install(key, A.new_kid, A.new_secret_hex, A.algorithm)
    return reply.ok("noop", A.new_kid)
  end
  local gone = collect_garbage(key, graces, now)
  if old then
    local until_ms = digits.of(ends and now - 1 or now + grace)
    redis.call("HSET", key, "expires_at:" .. old, until_ms, "previous_kid", old, "previous_expires_at", until_ms)
  end
  secret.install(key, A.new_kid, A.new_secret_hex, A.algorithm)

  return reply.ok("rotated", old or "", A.new_kid, gone)
end
