-- Releases a place, or removes a queue entry.
--
-- ARGV[2]  token   ARGV[3]  time that copies of its requests may arrive (ms); absent: none will
--
-- 1 released | 0 it did not hold
local token, late = ARGV[2], ARGV[3]
if late then redis.call('SET', K .. ':x:' .. token, 1, 'PX', late) end
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
  shorten()
  return 1
end
if redis.call('ZREM', Q, token) == 1 then redis.call('HDEL', K, 'a:' .. token) end
return r == token and 1 or 0
