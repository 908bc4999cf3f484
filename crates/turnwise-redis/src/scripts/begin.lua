-- Begins a job in the place that is held, which is dirty from now on until the job ends.
--
-- ARGV[2]  token
--
-- {1, 1 if it is dirty from a job that has not ended, or 0} begun | {0} it is not held
local token = ARGV[2]
local i = holding(token)
if not i then return {0} end
-- '1' if the place was dirty before, else '0'; then the token.
local mark, dirty = redis.call('HGET', K, 'd' .. i), 0
if mark and (string.sub(mark, 2) ~= token or string.sub(mark, 1, 1) == '1') then dirty = 1 end
redis.call('HSET', K, 'd' .. i, dirty .. token)
-- It is dirty until the next job there, whenever that is: a hundred years, as a quarantine.
keep(now + 3153600000000000)
return {1, dirty}
