-- Taking executions for a worker, many at once: start or resume each, and answer with what is needed to run it.
-- @uses attempt call_ids inputs
local M = {}

-- Where the payload stands in the row of a claim.
local PAYLOAD = 7

-- The payloads of all that are taken are read together in the end. earliest: when the first of their leases runs out.
function M.payloads() return {keys = {}, claims = {}, members = {}, earliest = nil} end

-- What a worker needs to run it, with the number of the claim in its call, from which its ids follow; a resumed attempt
-- keeps its own. The payload comes when all are known.
function M.answer(x, kind, number, payloads)
  local row = {
    number, x.id, x.current_lease_epoch, x.current_attempt_index, kind, x.execution_kind or "", "",
    x.payload_encoding or "",
  }
  if kind == "resumed" then row[9] = x.current_attempt_id end
  local n = #payloads.keys + 1
  payloads.keys[n], payloads.claims[n] = x.base .. ":payload", row
  if x.has_inputs then payloads.members[n] = x end
  local expires = x.lease_expires_at
  if expires ~= payloads.earliest and (not payloads.earliest or expires + 0 < payloads.earliest + 0) then
    payloads.earliest = expires
  end
  return row
end

-- Start or resume. The request names the worker; with the ids of this claim it is the owner to be.
function M.take(x, now, request, number, payloads)
  local kind = "resumed"
  request.lease_id, request.attempt_id = call_ids.lease(request, number), call_ids.attempt(request, number)
  if x.attempt_state == "attempt_interrupted" then
    attempt.resume(x, now, request)
  else
    kind = attempt.next_kind(x)
    attempt.start(x, now, request, kind)
  end
  return M.answer(x, kind, number, payloads)
end

-- The results of a member's upstreams follow its own payload; one more column says what they are.
local function add_inputs(row, x)
  local rows, results = inputs.of(x)
  row[PAYLOAD], row[9], row[10] = row[PAYLOAD] .. results, row[9] or "", rows
end

function M.add_payloads(payloads)
  if #payloads.keys == 0 then return end
  local found = redis.call("MGET", unpack(payloads.keys))
  for i = 1, #found do payloads.claims[i][PAYLOAD] = found[i] or "" end
  for i, x in pairs(payloads.members) do add_inputs(payloads.claims[i], x) end
end

return M
