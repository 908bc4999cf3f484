-- The fast path of `leave.lua`, for one place that the request holds, and without waiters. It reads
-- only what that needs. All other cases fall through to the general path below.
local got = redis.call('HMGET', KEYS[1], 'x', 'c', 'k', 'n', 't1', 'u1', 'd1')
if got[5] == ARGV[5] and not got[3] and got[2] == '1' and ARGV[2] == '1' then
  local clock = redis.call('TIME')
  local now = clock[1] * 1000000 + clock[2]
  if math.abs(tonumber(got[6])) > now then
    if ARGV[6] ~= '0' then redis.call('SET', KEYS[3], 1, 'PX', ARGV[6]) end
    local kept = tonumber(ARGV[3])
    local last = math.ceil(now / 1000) + kept
    if not got[4] and not got[7] and (tonumber(got[1]) or 0) > last + math.floor(kept / 10) then
      redis.call('HSET', KEYS[1], 't1', '', 'r', ARGV[5], 'x', last)
      redis.call('PEXPIREAT', KEYS[1], last)
    else
      redis.call('HSET', KEYS[1], 't1', '', 'r', ARGV[5])
    end
    return {1}
  end
end
