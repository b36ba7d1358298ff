-- The token of a waitpoint, `kid:digest`: whoever presents it may signal there. The digest is made of chance that the
-- caller brings along (a seed), or signs the waitpoint's id, key and creation. It is kept with the waitpoint, and with
-- it the mark of the secret that counted then: to compute it again for every token that somebody makes up would cost
-- the server a fifth of a millisecond each.
-- @uses digits hmac reply secret
local M = {}

-- A longer value would make the server keep the whole hash in a form that takes three times the memory.
local MAX_SHORT = 64
local SEED = 64

-- A digest that nobody can tell without the seed.
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

-- {kid, digest, mark}, or nil and a refusal. seed: chance that the caller drew for it; without one ("" or nil) it is
-- signed, for which the caller must have the right to read the secret.
function M.mint(tag, waitpoint_id, waitpoint_key, created_at, seed)
  local message = waitpoint_id .. "|" .. waitpoint_key .. "|" .. digits.of(created_at)
  if seed and seed ~= "" then return from_seed(tag, seed, message) end
  local current, refusal = secret.current(tag)
  if refusal then return nil, refusal end
  local digest = hmac.hex(current.algorithm, current.secret, message)
  return {kid = current.kid, digest = digest, mark = secret.mark(current.secret)}
end

function M.text(minted) return minted.kid .. ":" .. minted.digest end

-- The fields under which a waitpoint keeps it, names and values in turn.
function M.fields(minted)
  local text = M.text(minted)
  if #text <= MAX_SHORT then return {"waitpoint_token", text, "secret_mark", minted.mark} end
  return {"token_kid", minted.kid, "token_digest", minted.digest, "secret_mark", minted.mark}
end

-- What a waitpoint keeps, as minted; nil when it has none.
function M.of(w)
  local kid, digest = w.token_kid, w.token_digest
  if not digest then kid, digest = (w.waitpoint_token or ""):match("^([^:]+):(.+)$") end
  return kid and {kid = kid, digest = digest, mark = w.secret_mark} or nil
end

-- Does what signed it still count?
function M.counts(tag, minted, now) return secret.verifies(tag, minted.kid, now) == minted.mark end

-- Names the token in listings and logs, and cannot be turned back into it.
function M.fingerprint(minted) return redis.sha1hex(minted.digest):sub(1, 16) end

-- A refusal, or nil when the token is the waitpoint's and what signed it still counts. w: nil when there is no
-- waitpoint. The answer and the work are the same then, and for another kid, as for a wrong token (G6): only who has
-- the waitpoint's own token learns that its secret has expired.
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
