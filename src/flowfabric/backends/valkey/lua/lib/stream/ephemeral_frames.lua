-- Frames that are kept for a while only: best-effort frames, and patches once they are in the
-- summary. Each kind keeps its newest frames; the others leave the stream, so that they never
-- displace a durable frame.
-- @uses digits
local M = {}

-- Patches that a late reader still finds one by one.
M.DELTAS = 64
local AT_ONCE, SAFETY = 1000, 2

-- How many best-effort frames stay: twice what comes within their time to live. live: ttl_ms,
-- floor, ceiling, alpha. s.rate is the smoothed number per second; it starts at the value that
-- gives the floor. The newest frame always stays.
function M.most(s, live, count, now)
  local window = live.ttl_ms > 0 and live.ttl_ms or 1
  if s.rate then
    local gap = now - s.rate_at
    local old = (1 - live.alpha) ^ count
    s.rate = old * s.rate + (1 - old) * count * 1000 / (gap > 1 and gap or 1)
  else
    s.rate = live.floor * 1000 / (SAFETY * window)
  end
  s.rate_at = now
  local most = math.ceil(s.rate * window * SAFETY / 1000)
  return math.max(1, live.floor, math.min(most, math.max(live.ceiling, live.floor)))
end

-- Add the new entries to their list, and delete the oldest beyond the limit.
function M.keep(list, key, ids, most)
  local length = redis.call("RPUSH", list, unpack(ids))
  if length <= most then return end
  local gone = redis.call("LPOP", list, math.min(length - most, AT_ONCE))
  redis.call("XDEL", key, unpack(gone))
end

-- As meta fields, names and values in turn.
function M.add_fields(set, s, most)
  local n = #set
  set[n + 1], set[n + 2] = "ema_rate_hz", string.format("%.6g", s.rate)
  set[n + 3], set[n + 4] = "last_append_ts_ms", digits.of(s.rate_at)
  set[n + 5], set[n + 6] = "maxlen_applied_last", most
end

return M
