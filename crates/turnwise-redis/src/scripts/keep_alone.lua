-- The fast path of `renew.lua` and `confirm.lua`, for one place that the request holds, and a record
-- that is a string. All other cases fall through to the general path below.
local K, token = KEYS[1], ARGV[2]
local one = ARGV[1] == '1' or string.find(ARGV[1], '^1:')
local whole = one and redis.call('MGET', K)[1]
if whole then
  local u, f, x, b, n = struct.unpack('<ddddH', whole)
  local fence = tonumber(ARGV[4]) or f
  if string.sub(whole, 35, 34 + n) == token and fence > b then
    local clock = redis.call('TIME')
    local now = clock[1] * 1000000 + clock[2]
    if u > now then
      u = math.max(u, now + ARGV[3])
      x = math.ceil(u / 1000) + kept
      whole = struct.pack('<ddd', u, math.max(f, fence), x) .. string.sub(whole, 25)
      redis.call('SET', K, whole, 'PXAT', x)
      return {1}
    end
  end
end
