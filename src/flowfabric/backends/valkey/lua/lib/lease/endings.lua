-- The endings of a batch: completions and failures, each with its own outcome.
-- @uses batch lease_ops reply writes
local M = {}

-- Most endings are completions by the lease holder. Their members are in the list itself, one after
-- the other, so that they need no list of their own; any other ending is a list in the list.
local PLAIN = batch.shape(1, {"uuid", "lease_id", "lease_epoch", "attempt_id", "result_encoding"})
M.MEMBERS = #PLAIN.names

-- The arguments of a completion; the table serves one after the other.
local given = {}

local function complete(x, now, payload, lease_id, lease_epoch, attempt_id, source, encoding)
  given.lease_id, given.lease_epoch, given.attempt_id, given.source = lease_id, lease_epoch, attempt_id, source
  given.result_payload, given.result_encoding = payload or "", encoding
  return lease_ops.complete(x, given, now)
end

local function fail(x, item, now)
  return lease_ops.fail(x, {
    lease_id = item[3], lease_epoch = item[4], attempt_id = item[5], source = item[6],
    failure_reason = item[7], failure_category = item[8], retry_policy_json = item[9], retry_from = item[10],
    retry_delay_ms = type(item[11]) == "number" and item[11] >= 0 and item[11] or nil,
    failure_detail = type(item[12]) == "string" and item[12] or nil,
  }, now)
end

local function shape(...) return batch.shape(2, {"uuid", "lease_id", "lease_epoch", "attempt_id", "source", ...}) end

local SHAPES = {
  complete = shape("result_encoding"),
  fail = shape("failure_reason", "failure_category", "retry_policy_json", "retry_from"),
}

local function run_listed(tag, item, collected, now, payload)
  local operation = type(item) == "table" and item[1]
  local expected = SHAPES[operation]
  if not expected then return reply.invalid("operation", "complete or fail", operation) end
  local wrong = batch.check(item, expected)
  if wrong then return wrong end
  local x = batch.load(tag, item[2], collected)
  if operation == "fail" then return fail(x, item, now) end
  return complete(x, now, payload, item[3], item[4], item[5], item[6], item[7])
end

local function run_plain(tag, list, at, collected, now, payload)
  local x = batch.load(tag, list[at], collected)
  return complete(x, now, payload, list[at + 1], list[at + 2], list[at + 3], "lease_holder", list[at + 4])
end

-- The outcomes, one for each ending, and the collected writes, which are not flushed yet. This
-- worker is the first to fill the free slots and to take members that became ready; the rest is
-- announced later.
function M.run(tag, list, payloads, now, holds_back)
  local outcomes, collected, at, count = {}, writes.collector(), 1, 0
  collected.tells_later, collected.wakes_later, collected.permits = true, true, {}
  if holds_back then collected.ready = {} end
  local are_plain = #list % M.MEMBERS == 0 and batch.are_texts(list)
  while at <= #list do
    local outcome
    count = count + 1
    if are_plain or type(list[at]) == "string" then
      outcome = not are_plain and batch.check(list, PLAIN, at - 1)
        or run_plain(tag, list, at, collected, now, payloads[count])
      at = at + M.MEMBERS
    else
      outcome = run_listed(tag, list[at], collected, now, payloads[count])
      at = at + 1
    end
    outcomes[count] = outcome == lease_ops.COMPLETED and 1 or outcome  -- the short form of the common case
  end
  return outcomes, collected
end

return M
