-- Many items in one call: MessagePack in, one envelope for each item out. Payloads are arguments of their own, one
-- for each item, since the server's MessagePack knows no bytes.
-- @uses record reply writes
local M = {}

local MAX_ITEMS = 256
local MAX_NUMBER = 9999999999999

-- The decoded argument, or a refusal that names it.
function M.decode(name, text)
  local ok, value = pcall(cmsgpack.unpack, text)
  if not ok or type(value) ~= "table" then return nil, reply.invalid(name, "MessagePack", text:sub(1, 20)) end
  if #value > MAX_ITEMS then return nil, reply.invalid(name, "at most " .. MAX_ITEMS .. " items", #value) end
  return value
end

function M.tag(key) return key:match("%b{}") end

-- The names of an execution given by its uuid, in the partition of the call; its index writes are collected.
function M.at(tag, uuid, collected)
  local id = tag .. ":" .. uuid
  local base = "ff:exec:" .. tag .. ":" .. id
  return {
    core = base .. ":core", tag = tag, id = id, base = base, writes = collected,
    -- Room for the usual fields of a record, so that the table need not grow while they are read into it.
    lifecycle_phase = nil, public_state = nil, ownership_state = nil, eligibility_state = nil, blocking_reason = nil,
    terminal_outcome = nil, attempt_state = nil, namespace = nil, lane_id = nil, execution_kind = nil, created_at = nil,
    creator_identity = nil, current_lease_id = nil,
  }
end

function M.load(tag, uuid, collected) return record.fill(M.at(tag, uuid, collected)) end

-- Is every member what the shape says? shape: {{position, name, is_number?}, ...}. A wrong item is refused alone.
function M.check(item, shape)
  if type(item) ~= "table" then return reply.invalid("item", "a list", type(item)) end
  for i = 1, #shape do
    local member = shape[i]
    local value = item[member[1]]
    if member[3] then
      if type(value) ~= "number" or value < 0 or value > MAX_NUMBER or value % 1 ~= 0 then
        return reply.invalid(member[2], "a whole number from 0", value)
      end
    elseif type(value) ~= "string" then
      return reply.invalid(member[2], "text", value)
    end
  end
end

-- Run `one` on each item, then write what was collected together. `prepare` may look ahead for all of them.
function M.each(items, one, prepare)
  local outcomes, collected = {}, writes.collector()
  if prepare then prepare(collected) end
  for i = 1, #items do outcomes[i] = one(items[i], collected, i) end
  writes.flush(collected)
  return outcomes
end

return M
