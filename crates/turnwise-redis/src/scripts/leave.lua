-- Releases a place, or removes a queue entry.
--
-- KEYS[3]  marks a request that was given up for good
-- ARGV[5]  token   ARGV[6]  time that copies of its requests may arrive (ms); 0: none will
--
-- {1} released | {0} it did not hold
local token, late = ARGV[5], tonumber(ARGV[6])
if late > 0 then redis.call('SET', KEYS[3], 1, 'PX', late) end
local i = holding(token)
if i then
  if many then
    clear(i)
    redis.call('HSET', K, 'r', token)
  else
    t[i] = false
    redis.call('HSET', K, 't' .. i, '', 'r', token)
  end
  settle()
  forget_soon()
  return {1}
end
if redis.call('ZREM', Q, token) == 1 then redis.call('HDEL', K, 'a:' .. token) end
return {r == token and 1 or 0}
