-- The secrets that sign waitpoint tokens; each partition has a copy. The current one signs; older ones, found by their
-- kid, verify until their grace is over. Fields: current_kid, and for each kid secret:, algorithm: (absent: sha1) and
-- expires_at: (absent: the current one). A public key beside them holds the same fields with a mark in place of each
-- secret: the server checks a function's commands by the rights of its caller, and few callers may read the secrets.
-- @uses bounds hmac reply
local M = {}

local MAX_KID, MAX_SECRET_HEX = bounds.KID_MAX_BYTES, 2 * bounds.SECRET_MAX_BYTES

function M.key(tag) return "ff:sec:" .. tag .. ":waitpoint_hmac" end

-- The key of the public part: the same fields, with mark: in place of secret:.
local function public_key(tag) return "ff:kid:" .. tag end

-- A refusal for any key but that of a partition's secrets.
function M.check_key(key)
  if not key:find("^ff:sec:%b{}:waitpoint_hmac$") then
    return reply.invalid("hmac_secrets", "ff:sec:{tag}:waitpoint_hmac", key)
  end
end

local function is_hex(text) return text and #text > 0 and #text % 2 == 0 and not text:find("%X") end

-- Is this a valid secret? Its text is never shown.
function M.check(kid, secret_hex, algorithm)
  if kid == "" or #kid > MAX_KID or kid:find(":", 1, true) then
    return reply.refuse("invalid_kid", kid:sub(1, MAX_KID))
  end
  if #secret_hex > MAX_SECRET_HEX or not is_hex(secret_hex) then return reply.refuse("invalid_secret_hex") end
  if not hmac.ALGORITHMS[algorithm] then return reply.invalid("algorithm", "sha1 or sha256", algorithm) end
end

-- The entry of a kid: {secret, algorithm, expires_at}; nil when there is none.
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
  M.publish(key)
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

-- Distinguishes a secret from a later one of the same kid, and cannot be reversed.
function M.mark(secret_hex) return redis.sha1hex(secret_hex):sub(1, 8) end

-- Write the public part. key: of the secrets, which have changed or may be older than the public part.
function M.publish(key)
  local flat, set = redis.call("HGETALL", key), {}
  for i = 1, #flat, 2 do
    local kid = flat[i]:match("^secret:(.+)$")
    set[#set + 1] = kid and "mark:" .. kid or flat[i]
    set[#set + 1] = kid and M.mark(flat[i + 1]) or flat[i + 1]
  end
  local public = public_key(key:match("%b{}"))
  redis.call("DEL", public)
  redis.call("HSET", public, unpack(set))
end

function M.is_published(key) return redis.call("EXISTS", public_key(key:match("%b{}"))) == 1 end

local FACTS = {"current_kid", "expires_at:", "algorithm:"}

local function read(call, key, what, kid)
  local found = call("HMGET", key, FACTS[1], what .. kid, FACTS[2] .. kid, FACTS[3] .. kid)
  if found.err or not found[1] then return nil end
  return {current_kid = found[1], mark = found[2], expires_at = found[3], algorithm = found[4]}
end

-- Facts about a kid: {current_kid, mark, expires_at, algorithm}, false for a missing one. nil if the partition has no
-- secrets, or none that the caller may read: secrets written by another program have no public part.
local function known(tag, kid)
  local found = read(redis.call, public_key(tag), "mark:", kid)
  if found then return found end
  found = read(redis.pcall, M.key(tag), "secret:", kid)
  if found and found.mark then found.mark = M.mark(found.mark) end
  return found
end

local function length_of(found) return found.algorithm == "sha256" and 64 or 40 end

-- The current kid with its mark and the length of its digests, or nil and a refusal.
function M.signing(tag)
  local any = known(tag, "")
  local found = any and known(tag, any.current_kid)
  if not found or not found.mark then return nil, reply.refuse("hmac_secret_not_initialized") end
  return {kid = found.current_kid, mark = found.mark, length = length_of(found)}
end

-- The mark of the secret that verifies tokens of this kid now, or false; the length of their digests; and the mark of
-- the secret even if its grace is over. Or nil, nil, nil and a refusal, which depends only on the secrets.
function M.verifies(tag, kid, now)
  local found = known(tag, kid)
  if not found then return nil, nil, nil, reply.refuse("hmac_secret_not_initialized") end
  local counts = found.mark and (kid == found.current_kid or (tonumber(found.expires_at) or 0) >= now)
  return counts and found.mark, length_of(found), found.mark
end

return M
