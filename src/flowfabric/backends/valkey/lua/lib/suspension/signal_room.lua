-- The limits of signals: per execution, and in number and bytes per waitpoint, for all kinds of
-- delivery. Strangers may hold the token of a waitpoint, so by default it accepts less than a
-- megabyte. The policy may change that; 0 is no limit. The waitpoint counts its signals in
-- signal_count and signal_bytes.
-- The size of a signal's record besides its content.
-- @uses bounds digits policy reply
local M = {}

local PER_EXECUTION, PER_WAITPOINT, BYTES_PER_WAITPOINT = bounds.DEFAULT_MAX_SIGNALS, 1000, 819200
-- The size of a signal's record besides its content.
local OVERHEAD = 512
-- The first signal of a waitpoint is accepted without reading the policy when its payload is not
-- larger than this.
local SMALL = 4096
local CONTENT = {
  "payload", "signal_name", "signal_category", "source_type", "source_identity", "correlation_id", "payload_encoding",
}

-- The counted size of a signal. Its idempotency key is stored twice, in the record and as a key.
function M.size(A)
  local size = OVERHEAD + #A.signal_id + 2 * #A.idempotency_key
  for i = 1, #CONTENT do size = size + #A[CONTENT[i]] end
  return size
end

local function of_execution(A, rules)
  return A.max_signals_per_execution or policy.count(rules, "max_signals_per_execution", PER_EXECUTION)
end

local function of_waitpoint(rules)
  return policy.count(rules, "max_signals_per_waitpoint", PER_WAITPOINT),
    policy.count(rules, "max_signal_bytes_per_waitpoint", BYTES_PER_WAITPOINT)
end

local function exceeds(limit, wanted) return limit > 0 and wanted > limit end

-- A refusal, or nil when there is room for another. x.signals: the number of the execution's
-- signals.
function M.check(x, w, A)
  if x.signals == 0 and not w.signal_count and #A.payload <= SMALL then return nil end
  local size = M.size(A)
  local rules = policy.stored(x)
  local limit = of_execution(A, rules)
  if x.signals > 0 and exceeds(limit, x.signals + 1) then return reply.refuse("signal_limit_exceeded", limit) end
  local most, most_bytes = of_waitpoint(rules)
  if exceeds(most, (w.signal_count or 0) + 1) or exceeds(most_bytes, (w.signal_bytes or 0) + size) then
    return reply.refuse("signal_limit_exceeded", most, "waitpoint", most_bytes)
  end
end

-- The fields of a waitpoint that count one more, names and values in turn. matched: whether it
-- counted.
function M.counts(w, now, matched)
  local set = {"signal_count", (w.signal_count or 0) + 1, "last_signal_at", digits.of(now)}
  if matched then set[5], set[6] = "matched_signal_count", (w.matched_signal_count or 0) + 1 end
  return set
end

-- The same while more may come; also counts the room that is left.
function M.counts_so_far(w, now, matched, A)
  local set = M.counts(w, now, matched)
  set[#set + 1], set[#set + 2] = "signal_bytes", digits.of((w.signal_bytes or 0) + M.size(A))
  return set
end

local function check_node(node, most)
  for _, member in ipairs(node.members or {}) do
    local refusal = check_node(member, most)
    if refusal then return refusal end
  end
  local fits = #(node.waitpoints or {}) * most
  if node.kind == "Count" and node.count_kind ~= "DistinctWaitpoints" and node.n > fits then
    return reply.invalid("resume_condition_json", "n of at most " .. fits .. ", which max_signals_per_waitpoint allows",
      node.n)
  end
end

-- A condition that needs more signals than its waitpoints accept could never be met (D5).
function M.check_condition(x, wanted)
  if not wanted.tree then return nil end
  local most = of_waitpoint(policy.stored(x))
  return most > 0 and check_node(wanted.tree, most) or nil
end

return M
