-- The secrets that waitpoint tokens are signed with; each partition has a copy. One is current and signs; older ones
-- are known by their kid and verify until their grace is over. Fields: current_kid, and of each kid secret:, algorithm:
-- (absent: sha1) and expires_at: (absent: the current one).
-- @uses hmac reply
local M = {}

local MAX_KID, MAX_SECRET_HEX = 64, 1024

function M.key(tag) return "ff:sec:" .. tag .. ":waitpoint_hmac" end

-- A refusal when a key is not the one of a partition's secrets.
function M.check_key(key)
  if not key:find("^ff:sec:%b{}:waitpoint_hmac$") then
    return reply.invalid("hmac_secrets", "ff:sec:{tag}:waitpoint_hmac", key)
  end
end

local function is_hex(text) return text and #text > 0 and #text % 2 == 0 and not text:find("%X") end

-- Is this a secret that can be stored? Nothing of it is shown.
function M.check(kid, secret_hex, algorithm)
  if kid == "" or #kid > MAX_KID or kid:find(":", 1, true) then
    return reply.refuse("invalid_kid", kid:sub(1, MAX_KID))
  end
  if #secret_hex > MAX_SECRET_HEX or not is_hex(secret_hex) then return reply.refuse("invalid_secret_hex") end
  if not hmac.ALGORITHMS[algorithm] then return reply.invalid("algorithm", "sha1 or sha256", algorithm) end
end

-- What is stored under a kid: {secret, algorithm, expires_at}; nil when there is no such kid.
function M.of(key, kid)
  local found = redis.call("HMGET", key, "secret:" .. kid, "algorithm:" .. kid, "expires_at:" .. kid)
  if not found[1] then return nil end
  return {secret = found[1], algorithm = found[2] or "sha1", expires_at = tonumber(found[3])}
end

function M.is_same(stored, secret_hex, algorithm)
  return stored.algorithm == algorithm and hmac.equal(stored.secret:lower(), secret_hex:lower())
end

function M.install(key, kid, secret_hex, algorithm)
  redis.call("HSET", key, "current_kid", kid, "secret:" .. kid, secret_hex:lower())
  if algorithm ~= "sha1" then redis.call("HSET", key, "algorithm:" .. kid, algorithm) end
end

-- The secret that signs: {kid, secret, algorithm}, or nil and a refusal.
function M.current(tag)
  local key = M.key(tag)
  local kid = redis.call("HGET", key, "current_kid")
  local found = kid and M.of(key, kid)
  if not found then return nil, reply.refuse("hmac_secret_not_initialized") end
  if not is_hex(found.secret) or not hmac.ALGORITHMS[found.algorithm] then
    return nil, reply.refuse("invalid_secret")
  end
  found.kid = kid
  return found
end

-- Tells a secret from a later one of the same kid, and cannot be turned back into it.
function M.mark(secret_hex) return redis.sha1hex(secret_hex):sub(1, 8) end

-- The mark of the secret by which tokens of this kid are accepted now, false when none are; how long their digests
-- are; and the mark of the secret although its time may be over. Or nil, nil, nil and a refusal, which depends on the
-- keystore alone.
function M.verifies(tag, kid, now)
  local found = redis.call("HMGET", M.key(tag), "current_kid", "secret:" .. kid, "expires_at:" .. kid,
    "algorithm:" .. kid)
  if not found[1] then return nil, nil, nil, reply.refuse("hmac_secret_not_initialized") end
  local mark = found[2] and M.mark(found[2])
  local counts = mark and (kid == found[1] or (tonumber(found[3]) or 0) >= now)
  return counts and mark, found[4] == "sha256" and 64 or 40, mark
end

return M
