-- The fast path of `acquire.lua`, for one place that is free, or held while the request is not to
-- wait, and a record that is a string, or new. All other cases fall through to the general path
-- below.
local K, token = KEYS[1], ARGV[2]
local above = ARGV[1] == '1' and 0 or tonumber(string.match(ARGV[1], '^1:(%d+)$'))
if above then
  local got = redis.call('MGET', K, K .. ':x:' .. token)
  local whole = got[1]
  if not got[2] and (whole or redis.call('EXISTS', K) == 0) then
    local clock = redis.call('TIME')
    local now, u, f, x, n, b = clock[1] * 1000000 + clock[2], 0, 0, 0, 0
    if whole then u, f, x, b, n = struct.unpack('<ddddH', whole) end
    if n == 0 or u <= now then
      b, f, u = f, math.max(f + 1, now, above + 1), now + ARGV[3]
      local rest = token .. string.sub(whole or '', 35 + n)
      if x >= u / 1000 + kept * 0.9 then
        redis.call('SET', K, struct.pack('<ddddH', u, f, x, b, #token) .. rest, 'KEEPTTL')
      else
        x = math.ceil(u / 1000) + kept
        redis.call('SET', K, struct.pack('<ddddH', u, f, x, b, #token) .. rest, 'PXAT', x)
      end
      return f
    elseif not ARGV[4] and string.sub(whole, 35, 34 + n) ~= token then
      return {0, u - now}
    end
  end
end
