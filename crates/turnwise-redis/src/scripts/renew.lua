-- Holds for so long from now, if it still holds.
--
-- ARGV[4]  token   ARGV[5]  lease
--
-- {1} holds | {0} lost
local i = holding(ARGV[4])
if not i then return {0} end
renew(i, now + ARGV[5])
return {1}
