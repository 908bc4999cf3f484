-- Holds for so long from now, if it still holds.
--
-- ARGV[3]  token   ARGV[4]  lease
--
-- {1} holds | {0} lost
local i = holding(ARGV[3])
if not i then return {0} end
renew(i, now + ARGV[4])
return {1}
