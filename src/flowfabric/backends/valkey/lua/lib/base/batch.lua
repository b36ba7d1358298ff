-- Many items in one call: MessagePack in, one reply for each item out. Payloads are separate
-- arguments, one for each item, because MessagePack in Lua knows no bytes.
-- @uses bounds record reply writes
local M = {}

M.MAX_ITEMS = bounds.BATCH_MAX_ITEMS
local MAX_NUMBER = bounds.TIMESTAMP_MAX_MS

-- The decoded argument, or a refusal that names it. members: how many an item may have in the list itself.
function M.decode(name, text, members)
  local ok, value = pcall(cmsgpack.unpack, text)
  if not ok or type(value) ~= "table" then return nil, reply.invalid(name, "MessagePack", text:sub(1, 20)) end
  if #value > M.MAX_ITEMS * (members or 1) then
    return nil, reply.invalid(name, "at most " .. M.MAX_ITEMS .. " items", #value)
  end
  return value
end

function M.tag(key) return key:match("%b{}") end

-- The names of an execution in the partition of the call; its index writes are collected.
function M.at_id(tag, id, collected)
  local base = "ff:exec:" .. tag .. ":" .. id
  return {
    core = base .. ":core", tag = tag, id = id, base = base, writes = collected,
    -- Room for the usual fields of a record, so that the table need not grow while they are read into it.
    lifecycle_phase = nil, public_state = nil, ownership_state = nil, eligibility_state = nil, blocking_reason = nil,
    terminal_outcome = nil, attempt_state = nil, lane_id = nil, execution_kind = nil, created_at = nil,
    current_lease_id = nil, current_lease_epoch = nil,
  }
end

function M.at(tag, uuid, collected) return M.at_id(tag, tag .. ":" .. uuid, collected) end

function M.load(tag, uuid, collected) return record.named(M.at_id(tag, tag .. ":" .. uuid, collected)) end

-- The types of an item's members, from the first one on: text, or a whole number for names in `numbers`.
function M.shape(first, names, numbers)
  local shape = {before = first - 1, names = names, kinds = {}, numbers = {}}
  for i = 1, #names do
    local is_number = numbers and numbers[names[i]]
    shape.kinds[i] = is_number and "number" or "string"
    if is_number then shape.numbers[#shape.numbers + 1] = i end
  end
  return shape
end

-- A refusal, or nil for a whole number from 0.
function M.check_number(name, value)
  if type(value) ~= "number" or value < 0 or value > MAX_NUMBER or value % 1 ~= 0 then
    return reply.invalid(name, "a whole number from 0", value)
  end
end

-- A refusal, or nil for an allowed number of items.
function M.check_count(name, value)
  local wrong = M.check_number(name, value)
  if not wrong and value > M.MAX_ITEMS then return reply.invalid(name, "at most " .. M.MAX_ITEMS, value) end
  return wrong
end

local function refuse_member(shape, i, value)
  return reply.invalid(shape.names[i], shape.kinds[i] == "number" and "a whole number from 0" or "text", value)
end

-- Does an item have this shape? A bad item is refused alone. before: the position before its first
-- member, in a longer list.
function M.check(item, shape, before)
  if type(item) ~= "table" then return reply.invalid("item", "a list", type(item)) end
  local kinds, numbers = shape.kinds, shape.numbers
  before = before or shape.before
  for i = 1, #kinds do
    local value = item[before + i]
    if type(value) ~= kinds[i] then return refuse_member(shape, i, value) end
  end
  for i = 1, #numbers do
    local value = item[before + numbers[i]]
    if value < 0 or value > MAX_NUMBER or value % 1 ~= 0 then return refuse_member(shape, numbers[i], value) end
  end
end

-- Are all members of the list text? Concatenation checks them at once; numbers pass, and are as
-- good as text.
function M.are_texts(list) return (pcall(table.concat, list)) end

-- Run `one` on each item, then write all collected changes. `prepare` may look ahead for all items.
function M.each(items, one, prepare)
  local outcomes, collected = {}, writes.collector()
  if prepare then prepare(collected) end
  for i = 1, #items do outcomes[i] = one(items[i], collected, i) end
  writes.flush(collected)
  return outcomes
end

return M
