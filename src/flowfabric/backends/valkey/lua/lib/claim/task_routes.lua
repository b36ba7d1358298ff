-- Work that a worker has no task for is never claimed by it. It moves to a queue of its own, for
-- workers that have the task: its record gets a required capability that names the task.
-- @uses bounds capability index key_turns update
local M = {}

local MAX_BYTES, MAX_TOKENS = bounds.CAPABILITIES_CSV_MAX_BYTES, bounds.MAX_CAPABILITIES

-- Does the worker of this request have the task? One that names no tasks takes anything. The answers
-- are remembered for the call.
function M.knows(request, kind)
  if not request.kinds then return true end
  local known = request.known_kinds
  if not known then
    known = {}
    request.known_kinds = known
  end
  kind = kind or ""
  if known[kind] == nil then known[kind] = capability.is_named(request.kinds, capability.escaped(kind)) end
  return known[kind]
end

-- Its capabilities with the one of its task; nil when there is no room for it.
local function with_task(x)
  local token, required = capability.of_task(x.execution_kind or ""), x.required_capabilities
  if not required then return token end
  local _, commas = required:gsub(",", "")
  if #required + #token + 1 > MAX_BYTES or commas + 2 > MAX_TOKENS then return nil end
  return capability.sorted(required .. "," .. token)
end

-- Move an execution that is queued. Answers whether it moved.
function M.set_aside(x, now)
  local required = with_task(x)
  if not required or required == x.required_capabilities then return false end
  index.leave(x)
  update.write(x, now, {"required_capabilities", required})
  index.enter(x, now)
  if x.concurrency_key then key_turns.pass_on(x, now) end
  return true
end

return M
