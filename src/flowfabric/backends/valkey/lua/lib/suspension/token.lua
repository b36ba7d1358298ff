-- The token of a waitpoint, `kid:digest`: its bearer may signal there. The digest is made from a
-- random seed of the caller, or signs the waitpoint's id, key and creation. It is stored with the
-- waitpoint, together with the mark of the secret that was valid then: computing it again for every
-- forged token would cost the server a fifth of a millisecond each.
-- @uses digits hmac reply secret
local M = {}

-- A longer value would make the server keep the whole hash in a form that takes three times the memory.
local MAX_SHORT = 64
local SEED = 64

-- A digest that cannot be guessed without the seed.
local function drawn(seed, message, length)
  local digest = redis.sha1hex("1|" .. seed .. "|" .. message) .. redis.sha1hex("2|" .. seed .. "|" .. message)
  return digest:sub(1, length)
end

local function from_seed(tag, seed, message)
  if #seed ~= SEED or seed:find("%X") then return nil, reply.invalid("token_seed", SEED .. " hex digits", "") end
  local signing, refusal = secret.signing(tag)
  if refusal then return nil, refusal end
  return {kid = signing.kid, digest = drawn(seed, message, signing.length), mark = signing.mark}
end

-- {kid, digest, mark}, or nil and a refusal. seed: random text of the caller; without one ("" or
-- nil) it is signed, for which the caller needs the right to read the secret.
function M.mint(tag, waitpoint_id, waitpoint_key, created_at, seed)
  local message = waitpoint_id .. "|" .. waitpoint_key .. "|" .. digits.of(created_at)
  if seed and seed ~= "" then return from_seed(tag, seed, message) end
  local current, refusal = secret.current(tag)
  if refusal then return nil, refusal end
  local digest = hmac.hex(current.algorithm, current.secret, message)
  return {kid = current.kid, digest = digest, mark = secret.mark(current.secret)}
end

function M.text(minted) return minted.kid .. ":" .. minted.digest end

-- The fields of the token in a waitpoint, names and values in turn.
function M.fields(minted)
  local text = M.text(minted)
  if #text <= MAX_SHORT then return {"waitpoint_token", text, "secret_mark", minted.mark} end
  return {"token_kid", minted.kid, "token_digest", minted.digest, "secret_mark", minted.mark}
end

-- The stored token, as minted; nil when it has none.
function M.of(w)
  local kid, digest = w.token_kid, w.token_digest
  if not digest then kid, digest = (w.waitpoint_token or ""):match("^([^:]+):(.+)$") end
  return kid and {kid = kid, digest = digest, mark = w.secret_mark} or nil
end

-- Is the secret that signed it still valid?
function M.counts(tag, minted, now) return secret.verifies(tag, minted.kid, now) == minted.mark end

-- Identifies the token in listings and logs, and cannot be reversed.
function M.fingerprint(minted) return redis.sha1hex(minted.digest):sub(1, 16) end

-- A refusal, or nil when the token is the waitpoint's and its secret is still valid. w: nil when
-- there is no waitpoint. Reply and cost are then the same as for a wrong token or another kid (G6):
-- only the bearer of the real token learns that its secret has expired.
function M.check(tag, text, w, now)
  if text == "" then return reply.refuse("missing_token") end
  local kid, digest = text:match("^([^:]+):(.+)$")
  local mark, length, signed, refusal = secret.verifies(tag, kid or "", now)
  if refusal then return refusal end
  local minted = w and M.of(w)
  if not minted or minted.kid ~= kid then minted = {digest = ("-"):rep(length)} end
  local is_right = hmac.equal(digest or "", minted.digest)
  if not (signed and is_right and signed == minted.mark) then return reply.refuse("invalid_token") end
  if not mark then return reply.refuse("token_expired") end
end

return M
