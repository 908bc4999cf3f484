-- Gives a hold a greater number, and has its lease begin anew, if it still holds by no greater one.
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
