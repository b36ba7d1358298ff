-- Keyed digests (RFC 2104) with SHA-1, which the server computes, and SHA-256, which lib/base/sha256.lua computes.
-- @uses sha256
local M = {}

local BLOCK = 64
-- How many keys are kept ready. There are as many as secrets that are in use, which are few.
local MOST = 64

local ready, count = {}, 0

local function padded(key, with)
  local out = {}
  for i = 1, BLOCK do out[i] = string.char(bit.bxor(key:byte(i) or 0, with)) end
  return table.concat(out)
end

local BYTES = {}

-- The bytes that lower-case hexadecimal digits stand for.
function M.bytes(hex)
  if not BYTES["00"] then
    for i = 0, 255 do BYTES[("%02x"):format(i)] = string.char(i) end
  end
  return (hex:gsub("%x%x", BYTES))
end

local function of_sha1(key)
  if #key > BLOCK then key = M.bytes(redis.sha1hex(key)) end
  local inner, outer = padded(key, 0x36), padded(key, 0x5c)
  return function(message) return redis.sha1hex(outer .. M.bytes(redis.sha1hex(inner .. message))) end
end

-- Both padded keys fill one block exactly, so their SHA-256 state is computed once.
local function of_sha256(key)
  if #key > BLOCK then key = sha256.bytes(sha256.finish(sha256.START, key, 0)) end
  local inner, outer = sha256.after(sha256.START, padded(key, 0x36)), sha256.after(sha256.START, padded(key, 0x5c))
  return function(message)
    return sha256.hex(sha256.finish(outer, sha256.bytes(sha256.finish(inner, message, BLOCK)), BLOCK))
  end
end

M.ALGORITHMS = {sha1 = of_sha1, sha256 = of_sha256}

-- The digest of a message in hexadecimal. secret_hex: the key, two digits a byte.
function M.hex(algorithm, secret_hex, message)
  local name = algorithm .. ":" .. secret_hex
  if not ready[name] then
    if count >= MOST then ready, count = {}, 0 end
    ready[name], count = M.ALGORITHMS[algorithm](M.bytes(secret_hex)), count + 1
  end
  return ready[name](message)
end

-- Whether two texts are equal, in a time that depends only on their lengths: every character is compared.
function M.equal(one, other)
  if #one ~= #other then return false end
  local difference = 0
  for i = 1, #one do difference = bit.bor(difference, bit.bxor(one:byte(i), other:byte(i))) end
  return difference == 0
end

return M
