-- Closes the admission. Only reserved places can be confirmed afterwards.
--
-- {0, limit}
l, shut = limit, '1'
redis.call('HSET', K, 'l', l, 'c', shut)
settle()
return {0, l}
