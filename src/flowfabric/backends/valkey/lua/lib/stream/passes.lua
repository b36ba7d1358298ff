-- Passes of a handler. A later pass of the same attempt runs the handler from its top and emits its
-- output again, except that of recorded steps. So the frames before its mark are void, unless a step
-- emitted them, and void frames must not displace frames that still count: up to the limit of the
-- stream they are kept beside them, beyond it they are deleted.
local M = {}

local CHUNK, CHUNKS = 1000, 5

-- The type of the frame that a later pass emits first.
M.MARK = "ff:pass"

local function is_usual(heads)
  for i = 1, #heads do
    local h = heads[i]
    if (h.step_run or "") ~= "" or h.frame_type == M.MARK then return false end
  end
  return true
end

local function is_of_step(entry)
  local fields = entry[2]
  for i = 7, #fields - 1, 2 do
    if fields[i] == "step_run" then return true end
  end
end

-- Delete the oldest void frames; `s.swept` is the last entry that was looked at.
local function sweep(s)
  for _ = 1, CHUNKS do
    local entries, gone = redis.call("XRANGE", s.key, s.swept and "(" .. s.swept or "-", "+", "COUNT", CHUNK), {}
    for i = 1, #entries do
      if not is_of_step(entries[i]) then gone[#gone + 1] = entries[i][1] end
      s.swept = entries[i][1]
    end
    if #gone > 0 then s.void = s.void - redis.call("XDEL", s.key, unpack(gone)) end
    if #entries < CHUNK then return end
  end
end

-- Count the frames of steps, and at a mark the void frames, before the frames are added. set: meta
-- fields, names and values in turn.
function M.note(s, heads, picks, most, set)
  if is_usual(heads) then return end
  local has_mark = false
  for i = 1, #picks do
    local h = heads[picks[i]]
    if h.frame_type == M.MARK then s.void, has_mark = s.count + i - 1 - s.stepped - s.deleted, true end
    if (h.step_run or "") ~= "" then s.stepped = s.stepped + 1 end
  end
  if has_mark and s.void > most then
    local before = s.void
    sweep(s)
    s.deleted = s.deleted + before - s.void
    set[#set + 1], set[#set + 2] = "swept", s.swept
    set[#set + 1], set[#set + 2] = "void_deleted", s.deleted
  end
  local n = #set
  set[n + 1], set[n + 2], set[n + 3], set[n + 4] = "step_frames", s.stepped, "void_frames", s.void
end

-- How many entries a stream keeps beside `most` frames that count: its void ones, at most as many again.
function M.allowance(s, most) return math.min(s.void or 0, most) end

return M
