-- The waitpoints of a suspension: new ones, or pending ones that were created before the wait.
-- @uses args bounds reply signal tenant token waitpoint
local M = {}

-- Each new one is signed, which takes the server a fifth of a millisecond.
local MAX_WAITPOINTS = bounds.MAX_SUSPENSION_WAITPOINTS

local function malformed(problem) return nil, reply.refuse("additional_waitpoint_binding_malformed", problem) end

-- The additional waitpoints: how many, then id and key of each. Also answers the position after
-- them.
local function read_additional(list, rest)
  local n = (rest[1] or "") == "" and 0 or tonumber(rest[1]:match("^%d+$"))
  if not n or n >= MAX_WAITPOINTS then return malformed("their number is " .. rest[1]:sub(1, 20)) end
  for i = 1, n do
    local id, key = rest[2 * i], rest[2 * i + 1]
    if not id or not key or not waitpoint.is_id(id) then return malformed("number " .. i) end
    list[#list + 1] = {id = id, key = key}
  end
  list.tokens_later, list.token_seed = rest[2 * n + 3] == "later", rest[2 * n + 4]
  list.form = rest[2 * n + 5] or ""
  return rest[2 * n + 2] or ""
end

-- {id, key} of each, the first one first, whether their tokens come later, a seed for them, and the form of the wait;
-- the duration that follows them; or nil, nil and a refusal.
function M.read(A)
  if not waitpoint.is_id(A.waitpoint_id) then
    return nil, nil, reply.invalid("waitpoint_id", "an id without ':'", A.waitpoint_id)
  end
  local list = {{id = A.waitpoint_id, key = A.waitpoint_key}}
  local after, refusal = read_additional(list, A.additional)
  if refusal then return nil, nil, refusal end
  if #list.form > bounds.WAIT_FORM_MAX_BYTES then
    return nil, nil, reply.invalid("form", "at most " .. bounds.WAIT_FORM_MAX_BYTES .. " bytes", #list.form)
  end
  local seen = {}
  for _, each in ipairs(list) do
    if seen[each.id] then return nil, malformed("twice: " .. each.id) end
    seen[each.id] = true
  end
  local timeout_in_ms, wrong = args.optional("timeout_in_ms", after, args.nat)
  return list, timeout_in_ms, wrong
end

-- strict: only waitpoints of the running attempt, as the wire has it; otherwise those of earlier
-- attempts, too.
local function check_pending(x, w, now, strict)
  if not w then return reply.refuse("waitpoint_not_found") end
  if w.state ~= "pending" then return reply.refuse("waitpoint_not_pending", w.state) end
  if strict and w.attempt_index ~= x.current_attempt_index then
    return reply.refuse("invalid_waitpoint_for_execution")
  end
  if tonumber(w.expires_at or 0) <= now then return reply.refuse("pending_waitpoint_expired") end
  if not token.of(w) then return reply.refuse("waitpoint_not_token_bound") end
end

local function mint(x, each, w, now, at, list)
  if each.key == "" then
    if at > 1 then return reply.refuse("additional_waitpoint_binding_malformed", "no key: " .. each.id) end
    return reply.invalid("waitpoint_key", "text that is not empty", "")
  end
  if w then return reply.refuse("waitpoint_already_exists") end
  if list.tokens_later then return end
  local refusal
  each.minted, refusal = token.mint(x.tag, each.id, each.key, now, list.token_seed)
  return refusal
end

local function find(x, each, now, mode, at, list)
  local is_new = mode ~= "1" and (mode ~= "by_key" or each.key ~= "")
  local w = not each.is_free and waitpoint.load(x.tag, each.id) or nil
  if w and w.execution_id ~= x.id and tenant.scope and not is_new then w = nil end
  if w and w.execution_id ~= x.id then return reply.refuse("invalid_waitpoint_for_execution") end
  if is_new then return mint(x, each, w, now, at, list) end
  local refusal = check_pending(x, w, now, mode == "1")
  if refusal then return refusal end
  each.pending, each.key, each.minted = w, w.waitpoint_key, token.of(w)
end

-- Look each of them up, unless it is known to be new (is_free), or sign a new one. mode: "1" the
-- first is pending, "by_key" those without a key are, else none.
function M.prepare(x, list, now, mode)
  if mode == "1" and #list > 1 then return reply.refuse("use_pending_with_extras_unsupported") end
  for at, each in ipairs(list) do
    local refusal = find(x, each, now, mode, at, list)
    if refusal then return refusal end
  end
end

-- The set of their keys.
function M.keys(list)
  local keys = {}
  for _, each in ipairs(list) do keys[each.key] = true end
  return keys
end

-- Is it a single new one whose token was not issued? Then it needs no record besides the
-- suspension.
function M.is_unwritten(list) return list.tokens_later and #list == 1 and not list[1].pending end

-- Activate the waitpoints for the suspension.
function M.activate(x, list, now, suspension_id)
  for _, each in ipairs(list) do
    if each.pending then
      each.buffered = signal.buffered(each.pending)
      waitpoint.activate(each.pending, now, suspension_id)
    else
      waitpoint.create(x, now, each.id, each.key, each.minted, {"suspension_id", suspension_id, "state", "active"})
    end
  end
end

return M
