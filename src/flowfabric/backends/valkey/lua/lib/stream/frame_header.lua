-- The header of a frame: everything but its payload. Consecutive frames mostly share a header, so
-- it is checked once and turned into a call with the payload left open.
-- @uses batch bounds digits reply summary
local M = {}

-- The positions of the payload and of the summary version in the arguments of XADD.
M.PAYLOAD = 8

local MODES = {[""] = "durable", durable = "durable", summary = "summary", best_effort = "best_effort"}
local BYTES = {
  {"frame_type", bounds.FRAME_TYPE_MAX_BYTES}, {"encoding", bounds.ENCODING_MAX_BYTES},
  {"source", bounds.FRAME_LABEL_MAX_BYTES}, {"correlation_id", bounds.FRAME_LABEL_MAX_BYTES},
  {"metadata_json", bounds.FRAME_METADATA_MAX_BYTES}, {"step_run", bounds.FRAME_LABEL_MAX_BYTES},
}
local NAMES = {"encoding", "source", "correlation_id", "metadata_json", "step_run"}
local DEFAULTS = {ttl_ms = 0, maxlen_floor = 64, maxlen_ceiling = bounds.DEFAULT_MAX_LIVE_FRAMES, ema_alpha = 0.2}

local function check_live(h)
  for name, default in pairs(DEFAULTS) do
    if h[name] == nil or h[name] == "" then h[name] = default end
  end
  local alpha = tonumber(h.ema_alpha)
  if not alpha or not (alpha > 0 and alpha <= 1) then
    return reply.invalid("ema_alpha", "a number above 0, at most 1", h.ema_alpha)
  end
  h.live = {ttl_ms = h.ttl_ms, floor = h.maxlen_floor, ceiling = h.maxlen_ceiling, alpha = alpha}
end

-- A refusal or nil; h gets its mode and, for best-effort frames, how many of its kind stay.
function M.check(h)
  for _, bound in ipairs(BYTES) do
    local name, most = bound[1], bound[2]
    if #(h[name] or "") > most then return reply.invalid(name, "at most " .. most .. " bytes", #h[name]) end
  end
  if h.frame_type == "" then return reply.invalid("frame_type", "text that is not empty", "") end
  h.mode = MODES[h.stream_mode or ""]
  if not h.mode then return reply.invalid("stream_mode", "durable, summary or best_effort", h.stream_mode) end
  local kind = h.patch_kind or ""
  if h.mode == "summary" and kind ~= "" and kind ~= summary.PATCH_KIND then
    return reply.invalid("patch_kind", summary.PATCH_KIND, kind)
  end
  return h.mode == "best_effort" and check_live(h) or nil
end

-- In a batch a header is a list; trailing members may be left out.
local ORDER = {
  "frame_type", "encoding", "source", "correlation_id", "metadata_json", "ts", "stream_mode", "ttl_ms", "maxlen_floor",
  "maxlen_ceiling", "ema_alpha", "step_run",
}
local WHOLE = {ts = true, ttl_ms = true, maxlen_floor = true, maxlen_ceiling = true}

local function check_member(name, value)
  if WHOLE[name] then return batch.check_number(name, value) end
  local kind = name == "ema_alpha" and "number" or "string"
  if type(value) ~= kind then return reply.invalid(name, kind == "string" and "text" or "a number", value) end
end

-- The checked headers of a batch; or nil and a refusal.
function M.read(items)
  local heads = {}
  for i, item in ipairs(items) do
    local h, values = {}, type(item) == "table" and item or {}
    for at = 1, math.max(1, #values) do
      local name = ORDER[at]
      local wrong = not name and reply.invalid("head", "at most " .. #ORDER .. " members", at)
        or check_member(name, values[at])
      if wrong then return nil, wrong end
      h[name] = values[at]
    end
    local wrong = M.check(h)
    if wrong then return nil, wrong end
    heads[i] = h
  end
  return heads
end

-- The arguments of XADD, with room for the payload.
function M.call(h, key, id, now)
  local call = {key, id, "frame_type", h.frame_type, "ts", digits.of(h.ts and h.ts > 0 and h.ts or now), "payload", ""}
  local n = #call
  for _, name in ipairs(NAMES) do
    local value = h[name]
    if value and value ~= "" then call[n + 1], call[n + 2], n = name, value, n + 2 end
  end
  if h.mode ~= "durable" then call[n + 1], call[n + 2], n = "mode", h.mode, n + 2 end
  if h.mode == "best_effort" and h.ttl_ms > 0 then
    call[n + 1], call[n + 2], n = "ttl_ms", digits.of(h.ttl_ms), n + 2
  end
  if h.mode == "summary" then call[n + 1], call[n + 2], n = "summary_version", "", n + 2 end
  return call, n
end

return M
