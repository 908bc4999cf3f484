-- Gives a hold a greater number, and has its lease begin anew, if it still holds by no greater one.
--
-- ARGV[4]  token   ARGV[5]  fence   ARGV[6]  lease
--
-- {1} holds | {0} lost
local i, fence = holding(ARGV[4]), tonumber(ARGV[5])
if not i or g[i] > fence then return {0} end
f, g[i] = math.max(f, fence), fence
redis.call('HSET', K, 'f', f, 'g' .. i, fence)
renew(i, now + ARGV[6])
return {1}
