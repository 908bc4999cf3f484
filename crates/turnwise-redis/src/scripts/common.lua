-- What all steps begin with. See `record.rs`: this is the same machine.
--
-- KEYS[1]  record, a hash: t holder, u until, f fence, r who let go last, n ticks, k tickets,
--          a:TOKEN until when the place of a waiting request is kept
-- KEYS[2]  queue, a sorted set: TOKEN by its ticket
-- ARGV[1]  channels of notices begin so; a client's number follows
--
-- Times are microseconds on this server's clock.
local K, Q, channels = KEYS[1], KEYS[2], ARGV[1]
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local t, u, f, r = unpack(redis.call('HMGET', K, 't', 'u', 'f', 'r'))
u, f = tonumber(u) or 0, tonumber(f) or 0

-- A record outlives its hold by a day. Fences go on above it also without.
local function keep(till)
  redis.call('PEXPIREAT', K, math.ceil(till / 1000) + 86400000)
end

local function tell(token, what)
  redis.call('PUBLISH', channels .. string.match(token, '^[^:]*'), what .. token)
end

local function grant(token, till)
  t, u, f = token, till, math.max(f + 1, now)
  redis.call('HSET', K, 't', t, 'u', u, 'f', f)
  keep(u)
end

-- A lease that is over has ended; what nobody holds goes to the first whose place is kept.
local function settle()
  if t and u <= now then
    redis.call('HDEL', K, 't', 'u')
    t = false
  end
  while not t do
    local head = redis.call('ZPOPMIN', Q)[1]
    if not head then return end
    local alive = tonumber(redis.call('HGET', K, 'a:' .. head)) or 0
    redis.call('HDEL', K, 'a:' .. head)
    if alive > now then
      grant(head, alive)
      tell(head, '+')
    end
  end
end

local function busy()
  return t and u - now or 0
end

settle()
