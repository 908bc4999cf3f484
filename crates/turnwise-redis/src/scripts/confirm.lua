-- Raises the fence of a hold, and starts its lease anew, if it holds with no greater fence.
--
-- ARGV[2]  token   ARGV[3]  lease   ARGV[4]  fence
--
-- {1} holds | {0} lost
local i, fence = holding(ARGV[2]), tonumber(ARGV[4])
if not i or g[i] > fence then return {0} end
f, g[i] = math.max(f, fence), fence
redis.call('HSET', K, 'f', f, 'g' .. i, fence)
renew(i, now + ARGV[3])
return {1}
