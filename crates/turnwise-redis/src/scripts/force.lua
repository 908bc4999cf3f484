-- Takes the lock away from whoever holds it.
--
-- {1} somebody held it | {0} nobody did
if not t then return {0} end
tell(t, '-')
redis.call('HDEL', K, 't', 'u')
t = false
settle()
return {1}
