-- The progress of a suspension: the names that signals used up, or the tokens at the nodes of a
-- tree. It is read, credited with signals, and written back; `effect` says what a signal did.
-- @uses composite suspension waitpoint
local M = {}

local SATISFIED = "resume_condition_satisfied"

-- The distinct value that a Count counts of a signal.
local COUNTED = {
  DistinctWaitpoints = function(_, w) return "wp:" .. w.id end,
  DistinctSignals = function(sent) return "sig:" .. sent.id end,
  DistinctSources = function(sent) return "src:" .. sent.source_type .. "\0" .. sent.source_identity end,
}

local function add_token(tally, path, what)
  local name = path .. "|" .. what
  if tally.tokens[name] then return false end
  tally.tokens[name] = true
  tally.counts[path] = (tally.counts[path] or 0) + 1
  return true
end

local function token_key(x) return suspension.key(x) .. ":satisfied_set" end

local function load_tokens(x, suspension_id)
  local tally = {tokens = {}, counts = {}, signals = {}, prefix = suspension_id .. "|", new = {}}
  for _, member in ipairs(redis.call("SMEMBERS", token_key(x))) do
    if member:sub(1, #tally.prefix) == tally.prefix then
      local path, what = member:sub(#tally.prefix + 1):match("^([^|]*)|(.*)$")
      add_token(tally, path, what)
    end
  end
  return tally
end

-- By slot from 0: the signal that used it up. Without signals there is nothing to read.
local function load_slots(w)
  local tally = {slots = {}, count = 0}
  if not w.signal_count then return tally end
  local flat = redis.call("HGETALL", waitpoint.condition_key(w))
  for i = 1, #flat, 2 do
    local slot = flat[i]:match("^matcher:(%d+):signal_id$")
    if slot then tally.slots[tonumber(slot)], tally.count = flat[i + 1], tally.count + 1 end
  end
  return tally
end

-- One for each waitpoint; a tree has one for all.
function M.load(x, suspension_id, wanted, w)
  return wanted.tree and load_tokens(x, suspension_id) or load_slots(w)
end

local function credit_slot(wanted, tally, sent)
  for i = 0, wanted.total - 1 do
    local name = wanted.names[i + 1] or ""
    if not tally.slots[i] and (name == "" or (name == sent.name and not composite.RESERVED[name])) then
      tally.slots[i], tally.count = sent.id, tally.count + 1
      return tally.count >= wanted.needed and SATISFIED or "appended_to_waitpoint"
    end
  end
  return "no_op"
end

local function credit_tree(wanted, tally, sent, w)
  local leaves, accepted, added = composite.leaves(wanted.tree, "", w.waitpoint_key, {}), false, false
  for _, leaf in ipairs(leaves) do
    if composite.accepts(leaf.node.matcher, sent.name) then
      local counted = COUNTED[leaf.node.count_kind]
      local what = counted and counted(sent, w) or "leaf"
      accepted = true
      if add_token(tally, leaf.path, what) then
        added, tally.new[#tally.new + 1] = true, tally.prefix .. leaf.path .. "|" .. what
      end
    end
  end
  if #leaves == 0 then return "signal_ignored_not_in_condition" end
  if not accepted then return "signal_ignored_matcher_failed" end
  if not added then return "appended_to_waitpoint_duplicate" end
  tally.signals[#tally.signals + 1] = sent.id
  return composite.is_met(wanted.tree, "", tally.counts) and SATISFIED or "appended_to_waitpoint"
end

-- sent: id, name, source_type, source_identity. Answers its effect; an earlier one of several may
-- have sufficed.
function M.credit(wanted, tally, sent, w)
  local effect
  if wanted.tree then
    effect = credit_tree(wanted, tally, sent, w)
  else
    effect = credit_slot(wanted, tally, sent)
  end
  if effect == SATISFIED then tally.is_satisfied = true end
  return effect
end

local function save_slots(w, wanted, tally)
  local set = {"total_matchers", wanted.total}
  for slot, id in pairs(tally.slots) do
    local n, name = #set, "matcher:" .. slot
    set[n + 1], set[n + 2], set[n + 3], set[n + 4] = name .. ":satisfied", "1", name .. ":signal_id", id
  end
  redis.call("HSET", waitpoint.condition_key(w), unpack(set))
end

local CHUNK = 1000

local function add_all(key, members)
  for i = 1, #members, CHUNK do redis.call("SADD", key, unpack(members, i, math.min(i + CHUNK - 1, #members))) end
end

-- Write all credits since it was read.
function M.save(x, wanted, tally, w)
  if not wanted.tree then
    if tally.count > 0 then save_slots(w, wanted, tally) end
  elseif #tally.new > 0 then
    add_all(token_key(x), tally.new)
    add_all(token_key(x) .. ":signals", tally.signals)
  end
end

-- The signals that satisfied it.
function M.satisfiers(x, wanted, tally)
  local ids = {}
  if wanted.tree then
    ids = redis.call("SMEMBERS", token_key(x) .. ":signals")
  else
    for i = 0, wanted.total - 1 do ids[#ids + 1] = tally.slots[i] end
  end
  return ids
end

return M
