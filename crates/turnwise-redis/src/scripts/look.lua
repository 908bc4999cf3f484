-- What is known of it.
--
-- {fence, waiting, (place, so long its lease lasts, token)...}
local answer = {f, redis.call('ZCARD', Q)}
for i = 1, places do
  if t[i] then
    local n = #answer
    answer[n + 1], answer[n + 2], answer[n + 3] = i, u[i] - now, t[i]
  end
end
return answer
