-- The policy of a resume. Its delay is applied; the rest is stored for readers of the suspension.
-- @uses bounds reply
local M = {}

local MAX_DELAY_MS = bounds.MAX_DURATION_MS
local USUAL = {
  resume_target = "runnable", consume_matched_signals = true, retain_signal_buffer_until_closed = false,
  close_waitpoint_on_resume = true,
}

local function read_delay(value)
  if value == nil or value == cjson.null then return 0 end
  if type(value) ~= "number" or value < 0 or value > MAX_DELAY_MS or value % 1 ~= 0 then return nil end
  return value
end

-- The members of a resume policy that differ from the default, as text; or nil and a refusal.
function M.read(text)
  if text == "" or text == "null" then return "" end
  local function refuse() return nil, reply.invalid("resume_policy_json", "a resume policy in JSON", text) end
  local ok, object = pcall(cjson.decode, text)
  if not ok or type(object) ~= "table" or not read_delay(object.resume_delay_ms) then return refuse() end
  local kept = {}
  for name, value in pairs(object) do
    if type(name) ~= "string" then return refuse() end
    if value ~= cjson.null and value ~= USUAL[name] then kept[name] = value end
  end
  local written, kept_text = pcall(cjson.encode, kept)
  if not written then return refuse() end
  return next(kept) and kept_text or ""
end

-- The delay of a stored policy.
function M.delay(text) return text and read_delay(cjson.decode(text).resume_delay_ms) or 0 end

return M
