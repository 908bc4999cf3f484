-- What `leave.lua` does if there is one place, the request holds it, and nobody waits: most often.
-- It reads no more than that takes; anything else goes on to the whole machine below.
local got = redis.call('HMGET', KEYS[1], 'x', 'c', 'k', 'n', 't1', 'u1')
if got[5] == ARGV[5] and not got[3] and got[2] == '1' and ARGV[2] == '1' then
  local clock = redis.call('TIME')
  local now = clock[1] * 1000000 + clock[2]
  if math.abs(tonumber(got[6])) > now then
    if ARGV[6] ~= '0' then redis.call('SET', KEYS[3], 1, 'PX', ARGV[6]) end
    local kept = tonumber(ARGV[3])
    local last = math.ceil(now / 1000) + kept
    if not got[4] and (tonumber(got[1]) or 0) > last + math.floor(kept / 10) then
      redis.call('HSET', KEYS[1], 't1', '', 'r', ARGV[5], 'x', last)
      redis.call('PEXPIREAT', KEYS[1], last)
    else
      redis.call('HSET', KEYS[1], 't1', '', 'r', ARGV[5])
    end
    return {1}
  end
end
