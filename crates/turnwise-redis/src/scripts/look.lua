-- What is known of it.
--
-- {fence, waiting, (place, so long its lease lasts, token)...}
-- What is left of a queue whose record is gone does not wait.
local answer = {f, k and redis.call('ZCARD', Q) or 0}
for i = 1, places do
  if t[i] then
    local n = #answer
    answer[n + 1], answer[n + 2], answer[n + 3] = i, u[i] - now, t[i]
  end
end
return answer
