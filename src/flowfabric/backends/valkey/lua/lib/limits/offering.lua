-- Offers: a claim that finds an execution with limits offers it to its worker for a short time, in
-- which the worker asks the limits. No other worker can take it meanwhile. The record holds the
-- ticket of the admission.
--
-- Only this module writes the ticket. A replaced ticket is owed to its limits from the same step on
-- (lib/limits/handover.lua), because only the record knows it.
-- @uses digits handover permit ticket
local M = {}

M.TTL_MS = 5000

M.read = ticket.read

function M.key(tag) return "ff:part:" .. tag .. ":offers" end

local function csv(ids) return #ids > 0 and table.concat(ids, ",") or "-" end

-- Replace the ticket, if any. The rest: other fields to set with it.
local function put(x, now, parts, ...)
  if x.admission then handover.add(x, now, false) end
  x.admission, x.is_plain = table.concat(parts, " "), false
  redis.call("HSET", x.core, "admission", x.admission, ...)
end

-- Note the limits that this worker's claim has to be admitted to; answers the ticket.
function M.note(x, limits, worker_instance_id, until_ms, now, ...)
  local number, due = digits.of(ticket.next(x, now)), digits.of(until_ms)
  local parts = {number, due, csv(limits.quotas), csv(limits.budgets), worker_instance_id}
  put(x, now, parts, "admission_seq", number, ...)
  x.admission_seq = number
  redis.call("ZADD", M.key(x.tag), due, x.id)
  return number
end

-- It runs on the slot of another execution: there is nothing to ask.
function M.inherit(x, limits, worker_instance_id, slot, now)
  put(x, now, {"0", "0", csv(limits.quotas), "-", worker_instance_id}, "permit", permit.text(slot))
  permit.take_over(x, slot)
end

-- The row of the question to its limits: the execution and its limits.
function M.row(x, limits, number)
  local budgets = limits.is_answered and "" or table.concat(limits.budgets, ",")
  return {
    x.id, number, x.attempt_state == "attempt_interrupted" and "1" or "0", table.concat(limits.quotas, ","), budgets,
    x.namespace or "default", x.lane_id, x.execution_kind or "", x.concurrency_key or "",
  }
end

-- Offer it to a worker; answers its row.
function M.make(x, limits, worker_instance_id, now)
  local until_ms = now + M.TTL_MS
  x.claim_grant_until = digits.of(until_ms)
  local number = M.note(x, limits, worker_instance_id, until_ms, now, "claim_grant_until", x.claim_grant_until)
  return M.row(x, limits, number)
end

-- Is it on offer to this worker? number: the ticket that its limits have admitted, if known;
-- another ticket is not admitted yet.
function M.is_for(x, worker_instance_id, now, number)
  local offer = ticket.read(x)
  return offer ~= nil and offer.worker_instance_id == worker_instance_id and offer.until_ms >= now
    and (not number or offer.ticket == number)
end

-- The offer ends. A used ticket stays in the record.
function M.close(x) redis.call("ZREM", M.key(x.tag), x.id) end

-- Take the offer back. has_nothing: its limits hold nothing for it.
function M.drop(x, now, has_nothing)
  if not has_nothing then handover.add(x, now, false) end
  M.close(x)
  redis.call("HDEL", x.core, "admission", "claim_grant_until")
  x.admission, x.claim_grant_until = nil, nil
end

-- It stops running, or leaves the queue while on offer. Answers the fields to drop in that step.
-- continues: its attempt has not ended.
function M.leave(x, now, is_used, continues)
  handover.add(x, now, is_used, continues)
  if not is_used then M.close(x) end
  return {"admission", "permit", "reserved_budgets"}
end

return M
