-- An ended execution continues with its records: steps and ended waits stay. The rules are those of
-- core/rules/execution/retrying.py.
-- @uses attempt bounds index policy suspension waitpoint
local M = {}

-- After a wait that ended like this, the handler went on; any other end of a wait is that of its
-- execution.
local WENT_ON = {resumed = true, timed_out_auto_resume = true}

-- Has the handler continued after this suspension?
function M.went_on(s) return s ~= nil and WENT_ON[s.close_reason or ""] ~= nil end

-- The last suspension, if it ended only because its execution did.
local function fallen(x)
  local s = suspension.load(x)
  return s and not M.went_on(s) and s or nil
end

-- Made before a wait that is still to come: pending, or out of time, or of the wait that fell.
local function is_awaited(w, s)
  if waitpoint.is_unused(w) then return true end
  return s ~= nil and w.suspension_id == s.suspension_id and w.activated_at ~= nil
end

-- The wait that fell begins again, so it is forgotten. Waitpoints whose links may be out are open
-- for a day at least.
local function reopen_waits(x, now)
  local s, least = fallen(x), now + bounds.REOPENED_WAITPOINT_MS
  for _, w in ipairs(waitpoint.all_of(x)) do
    if is_awaited(w, s) then waitpoint.reopen(w, math.max(tonumber(w.expires_at or 0), least)) end
  end
  if s then redis.call("UNLINK", suspension.key(x)) end
end

function M.prepare(x, now)
  attempt.archive_ended(x, now)
  reopen_waits(x, now)
end

-- The deadline of its policy starts again.
function M.set_deadline(x, now)
  local deadline = policy.deadline_of(policy.stored(x))
  if deadline then index.set_deadline(x, now + deadline, now) end
end

return M
