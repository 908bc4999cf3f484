-- Returns a snapshot.
--
-- {0, limit, closed, admitted, reserved, waiting, fence}
local counts = {redis.call('LLEN', W), redis.call('ZCARD', U), redis.call('ZCARD', Q)}
return {0, l, closed() and 1 or 0, counts[1], counts[2], counts[3], f}
