-- Take executions for a worker, many at once: start or resume each, and reply with the data that
-- the worker needs.
-- @uses attempt call_ids inputs resumption
local M = {}

-- The column of the payload in the row of a claim.
local PAYLOAD = 3

-- The payloads of all taken executions are read together at the end. earliest: the first lease
-- expiry.
function M.payloads() return {keys = {}, claims = {}, members = {}, count = 0, earliest = nil} end

-- The row that a worker needs to run the execution, with the number of the claim in its call, from
-- which its ids follow. The payload is added later. First attempts need only the short row. A
-- resumed attempt keeps its own id and gets the result of its wait.
function M.answer(x, kind, number, payloads)
  local row = {number, x.id, "", x.execution_kind or "", x.payload_encoding or ""}
  if kind ~= "initial" or x.current_lease_epoch ~= "1" then
    row[6], row[7], row[8] = x.current_lease_epoch, x.current_attempt_index, kind
  end
  if kind == "resumed" then row[9], row[10] = x.current_attempt_id, resumption.packed(x) end
  local n = payloads.count + 1
  payloads.keys[n], payloads.claims[n], payloads.count = x.base .. ":payload", row, n
  if x.has_inputs then payloads.members[n] = x end
  local expires = x.lease_expires_at
  if expires ~= payloads.earliest and (not payloads.earliest or expires + 0 < payloads.earliest + 0) then
    payloads.earliest = expires
  end
  return row
end

-- Start or resume. The request names the worker; with the ids of this claim it becomes the owner.
-- woken: how the suspension ends, when it ends in the same step.
function M.take(x, now, request, number, payloads, woken)
  local kind = "resumed"
  request.lease_id, request.attempt_id = call_ids.of(request, number)
  if x.attempt_state == "attempt_interrupted" then
    attempt.resume(x, now, request, woken)
  else
    kind = attempt.next_kind(x)
    attempt.start(x, now, request, kind)
  end
  return M.answer(x, kind, number, payloads)
end

-- The results of a member's upstreams follow its own payload; the last column describes them.
local function add_inputs(row, x)
  local rows, results = inputs.of(x)
  row[6], row[7], row[8] = x.current_lease_epoch, x.current_attempt_index, row[8] or "initial"
  row[PAYLOAD], row[9], row[10], row[11] = row[PAYLOAD] .. results, row[9] or "", row[10] or "", rows
end

function M.add_payloads(payloads)
  if payloads.count == 0 then return end
  local found = redis.call("MGET", unpack(payloads.keys))
  for i = 1, #found do payloads.claims[i][PAYLOAD] = found[i] or "" end
  for i, x in pairs(payloads.members) do add_inputs(payloads.claims[i], x) end
end

return M
