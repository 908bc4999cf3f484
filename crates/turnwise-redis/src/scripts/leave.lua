-- Lets go: of the lock, or of a place.
--
-- KEYS[3]  marks a request that was given up for good
-- ARGV[2]  token   ARGV[3]  requests of it may come for so long (ms); 0: none will
--
-- {1} released | {0} it did not hold
local token, late = ARGV[2], tonumber(ARGV[3])
if late > 0 then redis.call('SET', KEYS[3], 1, 'PX', late) end
if t == token then
  redis.call('HDEL', K, 't', 'u')
  redis.call('HSET', K, 'r', token)
  t = false
  settle()
  return {1}
end
if redis.call('ZREM', Q, token) == 1 then redis.call('HDEL', K, 'a:' .. token) end
return {r == token and 1 or 0}
