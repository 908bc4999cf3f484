-- Lets nobody in any more, but those who have a place reserved.
--
-- {0, limit}
l, shut = limit, '1'
redis.call('HSET', K, 'l', l, 'c', shut)
settle()
return {0, l}
