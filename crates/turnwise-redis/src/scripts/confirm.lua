-- Raises the fence of a hold to this one at least, and starts its lease anew, if it still holds and
-- no hold before it had so great a fence.
--
-- ARGV[2]  token   ARGV[3]  lease   ARGV[4]  fence
--
-- {1} holds | {0} lost
local i, fence = holding(ARGV[2]), tonumber(ARGV[4])
if not i or fence <= (tonumber(redis.call('HGET', K, 'b')) or 0) then return {0} end
f, g[i] = math.max(f, fence), math.max(g[i], fence)
redis.call('HSET', K, 'f', f, 'g' .. i, g[i])
renew(i, now + ARGV[3])
return {1}
