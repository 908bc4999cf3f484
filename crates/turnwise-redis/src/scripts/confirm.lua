-- Raises the fence of a hold, and starts its lease anew, if it holds with no greater fence.
--
-- ARGV[5]  token   ARGV[6]  fence   ARGV[7]  lease
--
-- {1} holds | {0} lost
local i, fence = holding(ARGV[5]), tonumber(ARGV[6])
if not i or g[i] > fence then return {0} end
f, g[i] = math.max(f, fence), fence
redis.call('HSET', K, 'f', f, 'g' .. i, fence)
renew(i, now + ARGV[7])
return {1}
