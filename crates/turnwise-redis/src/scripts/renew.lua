-- Extends a hold to this lease from now at least, if it still holds.
--
-- ARGV[2]  token   ARGV[3]  lease
--
-- {1} holds | {0} lost
local i = holding(ARGV[2])
if not i then return {0} end
renew(i, now + ARGV[3])
return {1}
