-- The fast path of `leave.lua`, for one place that the request holds, and a record that is a
-- string. All other cases fall through to the general path below.
--
-- It needs no time unless the record is kept for long: a fence is the time of its grant, or greater.
local K, token = KEYS[1], ARGV[2]
leaves = token
local one = ARGV[1] == '1' or string.find(ARGV[1], '^1:')
local whole = one and redis.call('MGET', K)[1]
if whole then
  local _, f, x, _, n = struct.unpack('<ddddH', whole)
  if string.sub(whole, 35, 34 + n) == token then
    if ARGV[3] then redis.call('SET', K .. ':x:' .. token, 1, 'PX', ARGV[3]) end
    if x <= f / 1000 + kept * 1.1 then
      redis.call('SET', K, struct.pack('<ddddH', 0, f, x, 0, 0) .. token, 'KEEPTTL')
    else
      local clock = redis.call('TIME')
      x = math.ceil(clock[1] * 1000 + clock[2] / 1000) + kept
      redis.call('SET', K, struct.pack('<ddddH', 0, f, x, 0, 0) .. token, 'PXAT', x)
    end
    return 1
  end
end
