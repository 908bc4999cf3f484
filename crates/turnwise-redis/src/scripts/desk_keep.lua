-- Keeps reservations and seats.
--
-- ARGV[3]  so long a reservation   ARGV[4]  so long a seat   ARGV[5...]  (token, applicant)...
--
-- {0, busy, standing of each...}: 0 nowhere, 1 queued, 2 holds
local answer = {0, busy()}
for i = 5, #ARGV, 2 do
  local token, applicant, standing = ARGV[i], ARGV[i + 1], 0
  local e = entry(applicant)
  if e and e.token == token then
    standing = 2
    if e.kind == 'q' then
      seat(applicant, token, now + ARGV[4])
      standing = 1
    elseif e.kind == 'r' then
      reserve(applicant, token, e.place, e.fence, now + ARGV[3])
    end
  end
  answer[#answer + 1] = standing
end
answer[2] = busy()
return answer
