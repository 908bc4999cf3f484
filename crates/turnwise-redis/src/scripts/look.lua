-- Returns a snapshot.
--
-- {fence, waiting, (place, rest of its lease, token)...}
-- The rest of a queue whose record is gone does not count.
local answer = {f, k and redis.call('ZCARD', Q) or 0}
local held = many and redis.call('ZRANGE', U, 0, -1) or t[1] and {1} or {}
for _, i in ipairs(held) do
  i = tonumber(i)
  if many then load(i) end
  local n = #answer
  answer[n + 1], answer[n + 2], answer[n + 3] = i, u[i] - now, t[i]
end
return answer
