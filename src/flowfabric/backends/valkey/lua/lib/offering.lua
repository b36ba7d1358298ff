-- Offers: a claim that meets an execution with limits offers it to its worker for a short while, in which the limits
-- are asked. Nobody else takes it meanwhile. The record says under which ticket it is to be, or was, admitted.
-- @uses digits
local M = {}

M.TTL_MS = 5000

function M.key(tag) return "ff:part:" .. tag .. ":offers" end

local function csv(ids) return #ids > 0 and table.concat(ids, ",") or "-" end

-- What the record says: ticket, until_ms, quotas, budgets, worker_instance_id; nil without an offer.
function M.read(x)
  if not x.admission then return nil end
  local ticket, until_ms, quotas, budgets, worker = x.admission:match("^(%d+) (%d+) (%S+) (%S+) (.*)$")
  return {
    ticket = tonumber(ticket), until_ms = tonumber(until_ms), quotas = quotas, budgets = budgets,
    worker_instance_id = worker,
  }
end

-- Note that whoever has this worker's grant until then is to be admitted to these limits; answers the ticket.
function M.note(x, limits, worker_instance_id, until_ms)
  local ticket = digits.of(tonumber(x.admission_seq or 0) + 1)
  x.admission_seq = ticket
  x.admission = table.concat({
    ticket, digits.of(until_ms), csv(limits.quotas), csv(limits.budgets), worker_instance_id,
  }, " ")
  redis.call("HSET", x.core, "admission", x.admission, "admission_seq", ticket)
  redis.call("ZADD", M.key(x.tag), digits.of(until_ms), x.id)
  return ticket
end

-- It runs on a slot that was another's: there is nothing to ask.
function M.inherit(x, limits, worker_instance_id)
  x.admission = table.concat({"0", "0", csv(limits.quotas), "-", worker_instance_id}, " ")
  redis.call("HSET", x.core, "admission", x.admission)
end

-- What is asked of its limits, as a row: who it is and what they are.
function M.row(x, limits, ticket)
  local budgets = limits.is_answered and "" or table.concat(limits.budgets, ",")
  return {
    x.id, ticket, x.attempt_state == "attempt_interrupted" and "1" or "0", table.concat(limits.quotas, ","), budgets,
    x.namespace or "default", x.lane_id, x.execution_kind or "", x.concurrency_key or "",
  }
end

-- Offer it to a worker: its row.
function M.make(x, limits, worker_instance_id, now)
  local until_ms = now + M.TTL_MS
  local row = M.row(x, limits, M.note(x, limits, worker_instance_id, until_ms))
  redis.call("HSET", x.core, "claim_grant_until", digits.of(until_ms))
  x.claim_grant_until = digits.of(until_ms)
  return row
end

-- Was it offered to this worker, and still is?
function M.is_for(x, worker_instance_id, now)
  local offer = M.read(x)
  return offer ~= nil and offer.worker_instance_id == worker_instance_id and offer.until_ms >= now
end

-- It is out no more. Its ticket stays in the record where it was used.
function M.close(x) redis.call("ZREM", M.key(x.tag), x.id) end

-- Take it back altogether.
function M.drop(x)
  M.close(x)
  redis.call("HDEL", x.core, "admission", "claim_grant_until")
  x.admission, x.claim_grant_until = nil, nil
end

return M
