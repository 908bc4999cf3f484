-- What is known of it.
--
-- {fence, waiting, (place, so long its lease lasts, token)...}
-- What is left of a queue whose record is gone does not wait.
local answer = {f, k and redis.call('ZCARD', Q) or 0}
local held = many and redis.call('ZRANGE', U, 0, -1) or t[1] and {1} or {}
for _, i in ipairs(held) do
  i = tonumber(i)
  if many then load(i) end
  local n = #answer
  answer[n + 1], answer[n + 2], answer[n + 3] = i, u[i] - now, t[i]
end
return answer
