-- What is known of it.
--
-- {fence, waiting, busy, holder} | {fence, waiting}
local waiting = redis.call('ZCARD', Q)
if t then return {f, waiting, busy(), t} end
return {f, waiting}
