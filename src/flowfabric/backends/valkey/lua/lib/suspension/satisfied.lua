-- The signals that ended a wait, as workers of the 0.2.0 wire read them: in the condition of the
-- suspension's waitpoint. A wait that its first signal ended has not written it, so it is written
-- when such a worker resumes.
-- @uses condition progress signal suspension waitpoint
local M = {}

local function ids_of(s) return cjson.decode(s.all_satisfier_signals or "[]") end

-- The signals of the wait in the slots that they used up.
local function tally_of(x, s, wanted)
  local tally = {slots = {}, count = 0}
  for _, id in ipairs(ids_of(s)) do
    progress.credit(wanted, tally, {id = id, name = redis.call("HGET", signal.key(x.tag, id), "signal_name") or ""})
  end
  return tally
end

-- Make the signals that ended the last wait readable there. A wait that ended without signals has
-- none, and the signals of a composite condition are in the suspension alone.
function M.show(x)
  local s = suspension.load(x)
  if not s or s.close_reason ~= "resumed" or not s.all_satisfier_signals then return end
  local wanted, w = condition.stored(s.resume_condition_json), suspension.waitpoint(x, s, s.waitpoint_id)
  if wanted.tree or not w or redis.call("EXISTS", waitpoint.condition_key(w)) == 1 then return end
  if w.is_unwritten then suspension.write_waitpoint(x, s, w) end
  progress.save(x, wanted, tally_of(x, s, wanted), w)
  waitpoint.close(x.tag, w.id, "resumed", tonumber(s.closed_at))
end

return M
