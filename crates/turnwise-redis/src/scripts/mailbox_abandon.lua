-- Releases a mailbox in which nothing was begun, and refuses claims by this request from now on.
--
-- ARGV[3]  actor   ARGV[4]  token   ARGV[5]  time that they are refused (ms)
--
-- {1} it was held | {0} it was not
redis.call('SET', T .. ':g:' .. ARGV[4], '', 'PX', ARGV[5])
local a = load(ARGV[3])
if a.t ~= ARGV[4] then return {0} end
let_go(a, 0)
save(a)
return {1}
