-- Taking executions for a worker, many at once: start or resume each, and answer with what is needed to run it.
-- @uses attempt
local M = {}

-- Where the payload stands in the reply of a claim.
local PAYLOAD = 11

-- The payloads of all that are taken are read together in the end.
function M.payloads() return {keys = {}, claims = {}} end

-- What a worker needs to run it, with the lease; its payload comes when all are known.
function M.answer(x, kind, payloads)
  local out = {
    1, "OK", x.id, x.current_lease_id, x.current_lease_epoch, x.lease_expires_at, x.current_attempt_id,
    x.current_attempt_index, kind, x.execution_kind or "", "", x.payload_encoding or "",
  }
  local n = #payloads.keys + 1
  payloads.keys[n], payloads.claims[n] = x.base .. ":payload", out
  return out
end

-- Start or resume. The request names the worker; with the ids it is the owner to be.
function M.take(x, now, request, lease_id, attempt_id, payloads)
  local kind = "resumed"
  request.lease_id, request.attempt_id = lease_id, attempt_id
  if x.attempt_state == "attempt_interrupted" then
    attempt.resume(x, now, request)
  else
    kind = attempt.next_kind(x)
    attempt.start(x, now, request, kind)
  end
  return M.answer(x, kind, payloads)
end

function M.add_payloads(payloads)
  if #payloads.keys == 0 then return end
  local found = redis.call("MGET", unpack(payloads.keys))
  for i = 1, #found do payloads.claims[i][PAYLOAD] = found[i] or "" end
end

return M
