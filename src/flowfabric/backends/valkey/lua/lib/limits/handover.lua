-- A step that ends a stretch of running, or an offer, owes slots or amounts to limits in other
-- partitions: it adds one entry to a list of its own partition. The drain of the list pays the
-- limit, then removes the entry (D20).
-- @uses digits permit ticket
local M = {}

function M.key(tag) return "ff:part:" .. tag .. ":handovers" end

local function started_at(x) return tonumber(x.lease_acquired_at or x.attempt_started_at or x.started_at) end

local function joined(csv, more)
  local ids, seen = {}, {}
  for id in ((csv or "") .. "," .. (more or "")):gmatch("[^,-][^,]*") do
    if not seen[id] then ids[#ids + 1], seen[id] = id, true end
  end
  return #ids > 0 and table.concat(ids, ",") or "-"
end

local function write(tag, now, entry, collected)
  redis.call("ZADD", M.key(tag), digits.of(now), table.concat(entry, " "))
  if collected then collected.handed_over = "1" end
  redis.call("PUBLISH", "ff:handover", tag)
end

-- The debt of the execution; is_used: it has run, otherwise it was only offered. A permit may pass
-- on instead. continues: its attempt has not ended.
function M.add(x, now, is_used, continues)
  local was = ticket.read(x) or {ticket = 0, quotas = "-"}
  local slot = permit.read(x) or {owner = x.id, ticket = was.ticket}
  local is_kept = is_used and slot.since and permit.keep(x, slot, now)
  local quotas = is_kept and "-" or was.quotas
  local budgets = is_used and joined(was.budgets, x.reserved_budgets) or "-"
  if not is_kept then permit.end_passing(x.tag, slot) end
  if quotas == "-" and budgets == "-" then return end
  local ran_ms, attempts = 0, 0
  if is_used then ran_ms, attempts = math.max(0, now - started_at(x)), x.lease_acquired_at and 0 or 1 end
  write(x.tag, now, {
    x.id, slot.owner, digits.of(slot.ticket), x.current_lease_epoch, is_used and "1" or "0", digits.of(ran_ms),
    attempts, quotas, budgets, is_used and x.reserved_budgets or "-",
    continues and "1" or nil,
  }, x.writes or x.beside)
end

-- Return permits that no other execution took over.
function M.give_back(tag, now, collected)
  for _, slot in ipairs(collected.permits) do
    local quota = slot.limit:match("^q:(%x+%-[%x-]+)")
    permit.end_passing(tag, slot)
    write(tag, now, {slot.owner, slot.owner, digits.of(slot.ticket), "0", "1", "0", "0", quota, "-", "-"}, collected)
  end
end

return M
