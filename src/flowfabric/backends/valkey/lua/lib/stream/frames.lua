-- Append frames to the stream of a running attempt, for single calls and batches. The frames of one
-- call are appended together or not at all.
-- @uses bounds digits ephemeral_frames frame_header passes policy reply stream summary
local M = {}

local MAX_BYTES, DEFAULT_MAXLEN = bounds.MAX_FRAME_PAYLOAD_BYTES, bounds.DEFAULT_RETENTION_MAXLEN

-- A refusal when one of the payloads is too large, or nil.
function M.check_sizes(payloads, most)
  most = math.min(most, MAX_BYTES)
  for i = 1, #payloads do
    if #payloads[i] > most then return reply.refuse("retention_limit_exceeded", most) end
  end
end

-- Frames of a batch are numbered from 0 under each lease, so that a repeated call adds nothing
-- twice and a call out of order is refused. Answers how many of these frames exist already, or nil
-- and a refusal.
function M.known(s, first, count)
  local epoch, have = (s.numbered or ""):match("^(%d+) (%d+)$")
  have = epoch == s.epoch and tonumber(have) or 0
  if first > have or first + count < have then return nil, reply.refuse("frames_out_of_order", have) end
  return have - first
end

-- Patches are applied in memory, to be stored with the frames. A refusal or nil.
local function apply_patches(x, s, heads, picks, payloads)
  for i = 1, #picks do
    if heads[picks[i]].mode == "summary" then
      local refusal
      if not s.summary then s.summary, refusal = summary.load(x, s.index) end
      refusal = refusal or summary.patch(s.summary, payloads[i])
      if refusal then return refusal end
    end
  end
  if not s.summary then return nil end
  local text, refusal = summary.text(s.summary)
  s.document = text
  return refusal
end

-- Add the entries; their ids, and by mode the ids of those that are not durable.
local function add(s, heads, picks, payloads, now)
  local calls, sizes, ids, by_mode, id = {}, {}, {}, {}, stream.next_id(now, s.last)
  for i = 1, #picks do
    local pick, payload = picks[i], payloads[i]
    local call, h = calls[pick], heads[pick]
    if not call then
      call, sizes[pick] = frame_header.call(h, s.key, id, now)
      calls[pick] = call
    end
    call[frame_header.PAYLOAD] = payload
    if h.mode == "summary" then
      s.summary.version = s.summary.version + 1
      call[sizes[pick]] = tostring(s.summary.version)
    end
    local added = redis.call("XADD", unpack(call))
    ids[i], s.bytes = added, s.bytes + #payload
    if h.mode ~= "durable" then
      local of_mode = by_mode[h.mode] or {}
      of_mode[#of_mode + 1], by_mode[h.mode], s.live = added, of_mode, h.live or s.live
    end
  end
  s.count, s.last = s.count + #ids, ids[#ids]
  return ids, by_mode
end

-- A stream of best-effort frames alone expires after a while; the first other frame makes it
-- permanent.
local function expire(s, are_fleeting, set)
  local list = s.key .. ":live"
  if are_fleeting and (s.is_new or s.is_fleeting) then
    set[#set + 1], set[#set + 2] = "has_durable_frame", "0"
    if s.live.ttl_ms == 0 then return end
    redis.call("PEXPIRE", s.key, 2 * s.live.ttl_ms)
    redis.call("PEXPIRE", list, 2 * s.live.ttl_ms)
  elseif s.is_fleeting and not are_fleeting then
    redis.call("PERSIST", s.key)
    redis.call("PERSIST", list)
    redis.call("HDEL", s.key .. ":meta", "has_durable_frame")
  end
end

local function most_of(s, kept)
  return kept.maxlen > 0 and kept.maxlen or s.maxlen > 0 and s.maxlen or DEFAULT_MAXLEN
end

-- The count of appended frames tells cheaply whether there may be too many.
local function trim(s, kept, now)
  local most = most_of(s, kept)
  if s.count > most then
    local beside = redis.call("LLEN", s.key .. ":live") + redis.call("LLEN", s.key .. ":deltas")
    redis.call("XTRIM", s.key, "MAXLEN", kept.maxlen > 0 and "=" or "~",
      most + beside + passes.allowance(s, most))
  end
  if kept.age_ms > 0 then redis.call("XTRIM", s.key, "MINID", "=", digits.of(now - kept.age_ms)) end
end

local function note_first(x, s, now, set)
  local output = policy.stored(x).stream_policy
  s.maxlen = type(output) == "table" and policy.count(output, "retention_maxlen", 0) or 0
  set[1], set[2] = "created_at", digits.of(now)
  if s.maxlen > 0 and s.maxlen ~= DEFAULT_MAXLEN then set[3], set[4] = "retention_maxlen", s.maxlen end
end

-- The frames that are kept for a while only.
local function bound(s, by_mode, now, set)
  local fleeting, deltas = by_mode.best_effort, by_mode.summary
  if fleeting then
    local most = ephemeral_frames.most(s, s.live, #fleeting, now)
    ephemeral_frames.keep(s.key .. ":live", s.key, fleeting, most)
    ephemeral_frames.add_fields(set, s, most)
  end
  if deltas then
    ephemeral_frames.keep(s.key .. ":deltas", s.key, deltas, ephemeral_frames.DELTAS)
    summary.store(s.summary, s.document, now)
  end
end

-- s: the open stream. heads: checked headers. picks: the header of each frame. payloads: one each.
-- kept: maxlen (0: from the policy) and age_ms (0: any). numbered?: the lease and its frame count
-- including these. Answers the ids of the entries; or nil and a refusal, with nothing written.
function M.append(x, s, heads, picks, payloads, kept, now, numbered)
  local refusal = apply_patches(x, s, heads, picks, payloads)
  if refusal then return nil, refusal end

  local set = {}
  if s.is_new then note_first(x, s, now, set) end
  passes.note(s, heads, picks, most_of(s, kept), set)
  local ids, by_mode = add(s, heads, picks, payloads, now)
  if next(by_mode) then bound(s, by_mode, now, set) end
  expire(s, #(by_mode.best_effort or {}) == #ids, set)
  trim(s, kept, now)
  if numbered then set[#set + 1], set[#set + 2] = "numbered", numbered end
  redis.call("HSET", s.key .. ":meta", "frame_count", tostring(s.count), "total_bytes", tostring(s.bytes),
    "last_sequence", s.last, "last_frame_at", digits.of(now), unpack(set))
  if not s.is_noted then redis.call("HSET", x.core, "stream_attempt_index", s.index) end
  return ids
end

return M
