-- Extends reservations and queue entries.
--
-- ARGV[3]  lease of a reservation   ARGV[4]  lifetime of a queue entry
-- ARGV[5...]  (token, applicant, fence)...
-- A fence of 0 matches any.
--
-- {0, busy, standing of each...}: 0 nowhere, 1 queued, 2 holds
local answer = {0, busy()}
for i = 5, #ARGV, 3 do
  local token, applicant, fence, standing = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), 0
  local e = entry(applicant)
  if e and e.token == token then
    if e.kind == 'q' then
      enqueue(applicant, token, now + ARGV[4])
      standing = 1
    elseif fence == 0 or fence == e.fence then
      if e.kind == 'r' then reserve(applicant, token, e.place, e.fence, now + ARGV[3]) end
      standing = 2
    end
  end
  answer[#answer + 1] = standing
end
answer[2] = busy()
return answer
