-- Writes the row of a reservation.
--
-- ARGV[3]  token   ARGV[4]  applicant   ARGV[5]  fence   ARGV[6]  row
--
-- {3, place, fence} admitted | {0} there is no such reservation
local e = entry(ARGV[4])
if not e or e.token ~= ARGV[3] or e.fence ~= tonumber(ARGV[5]) then return {0} end
if e.kind == 'w' then return {3, e.place, e.fence} end
return write(ARGV[4], ARGV[3], e.place, e.fence, ARGV[6])
