-- Returns rows in the order of writing.
--
-- ARGV[3]  number of rows to skip   ARGV[4]  maximum number
--
-- {0, (place, fence, applicant, row)...}
local answer, from, most = {0}, tonumber(ARGV[3]), tonumber(ARGV[4])
if most == 0 then return answer end
for _, applicant in ipairs(redis.call('LRANGE', W, from, from + most - 1)) do
  local e, at = entry(applicant), #answer
  answer[at + 1], answer[at + 2] = e.place, e.fence
  answer[at + 3], answer[at + 4] = applicant, redis.call('HGET', D, applicant)
end
return answer
