-- The beginning of all steps of mailboxes. Implements the machine of `mailbox.rs`.
--
-- KEYS[1]  number of shards. All other keys of the shard begin with the part before its `:n`; those
--          of an actor or a message end with its name:
--            :a:ACTOR    mailbox, a hash: t token of its drainer, u until, s step, h number of
--                        handed messages; f fence; b number that may have begun; c failed
--                        attempts; y ready; l hold and step of the last release; d when the first
--                        delayed message arrives
--            :m:ACTOR    ids of messages, a list
--            :l:ACTOR    ids of delayed messages, by the times at which they arrive
--            :b:ACTOR    messages by their ids, a hash
--            :s:ACTOR    state
--            :o:LENGTH:ACTOR:MESSAGE  outcome; LENGTH is the actor's
--            :g:TOKEN    exists if this request's claims are refused
--            :due        actors by their due times, a sorted set
--            :x, :y      dead letters by LENGTH:ACTOR:MESSAGE, and their order
--            :w          waiting workers, by the time until which they wait
-- ARGV[1]  prefix of the channels of notices; a client's number follows
-- ARGV[2]  number of shards
--
-- Times are microseconds of this server's clock; expiries, `keep`, are milliseconds.
local T = string.sub(KEYS[1], 1, -3)
local channels, shards = ARGV[1], ARGV[2]
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local said = redis.call('GET', KEYS[1])
-- {-2, shards} other clients use another number
if said and said ~= shards then return {-2, tonumber(said)} end

local function key(kind, actor)
  return T .. ':' .. kind .. ':' .. actor
end

local function named(actor, message)
  return #actor .. ':' .. actor .. ':' .. message
end

local function tell(token)
  redis.call('PUBLISH', channels .. string.match(token, '^[^:]*'), '+' .. token)
end

-- Reads the time of the first delayed message.
local function first_later(a)
  a.d = tonumber(redis.call('ZRANGE', a.L, 0, 0, 'WITHSCORES')[2]) or 0
  redis.call('HSET', a.K, 'd', a.d)
end

-- Moves messages whose time has come behind the others.
local function arrive(a)
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', a.L, '-inf', now)) do
    redis.call('RPUSH', a.M, id)
  end
  redis.call('ZREMRANGEBYSCORE', a.L, '-inf', now)
  first_later(a)
end

local function load(actor)
  local K = key('a', actor)
  local got = redis.call('HMGET', K, 't', 'u', 's', 'h', 'f', 'b', 'c', 'y', 'l', 'd')
  local t = got[1]
  if t == '' then t = false end
  local a = {
    actor = actor, K = K, M = key('m', actor), B = key('b', actor), L = key('l', actor),
    t = t, u = tonumber(got[2]) or 0, s = tonumber(got[3]) or 0, h = tonumber(got[4]) or 0,
    f = tonumber(got[5]) or 0, b = tonumber(got[6]) or 0, c = tonumber(got[7]) or 0,
    y = tonumber(got[8]) or 0, l = got[9] or '', d = tonumber(got[10]) or 0
  }
  -- Without d, the mailbox is new, or was deleted.
  local due = a.d > 0 and a.d <= now
  if due or not got[10] and redis.call('EXISTS', a.L) == 1 then arrive(a) end
  return a
end

local function drained(a)
  return a.t and a.u > now
end

-- The rest of the drainer's lease, or of the pause before the next attempt.
local function busy(a)
  return math.max((drained(a) and a.u or a.y) - now, 0)
end

local function len(a)
  return redis.call('LLEN', a.M)
end

-- The number of messages to hand out next.
local function most_of(a, most)
  if a.b > 0 then most = math.min(most, 1) end
  return math.min(most, len(a))
end

local function save(a)
  redis.call('HSET', a.K, 't', a.t or '', 'u', a.u, 's', a.s, 'h', a.h, 'f', a.f, 'b', a.b,
    'c', a.c, 'y', a.y, 'l', a.l, 'd', a.d)
  -- A mailbox without messages is known for as long as copies of its last step may arrive.
  if a.t or a.d > 0 or len(a) > 0 then
    redis.call('PERSIST', a.K)
  else
    redis.call('PEXPIRE', a.K, 600000)
  end
end

-- Reads a message: {name, body, asker}. One that was deleted by hand has no name, so it becomes a
-- dead letter, and those behind it run.
local function read(message)
  return message and cmsgpack.unpack(message) or {'', '', ''}
end

-- {2, fence, attempts, left, 1 if there is a state, state, then id, name, body, asker of each
-- message}
local function hand(a, with_state)
  local state = with_state and redis.call('GET', key('s', a.actor))
  local answer = {2, a.f, a.c, math.max(len(a) - a.h, 0), state and 1 or 0, state or ''}
  local ids = a.h > 0 and redis.call('LRANGE', a.M, 0, a.h - 1)
  if ids and ids[1] then
    local bodies = redis.call('HMGET', a.B, unpack(ids))
    for i, id in ipairs(ids) do
      local message = read(bodies[i])
      answer[#answer + 1] = id
      answer[#answer + 1] = message[1]
      answer[#answer + 1] = message[2]
      answer[#answer + 1] = message[3]
    end
  end
  return answer
end

local function wake_worker()
  while true do
    local first = redis.call('ZPOPMIN', T .. ':w')
    if not first[1] then return end
    if tonumber(first[2]) > now then return tell(first[1]) end
  end
end

-- Wakes a worker if no mailbox is due before this one: it may have another time in mind.
local function wake_if_first(a)
  if redis.call('ZRANGE', T .. ':due', 0, 0)[1] == a.actor then wake_worker() end
end

-- Sets the due time of a mailbox that has messages and no drainer.
local function is_due(a)
  if drained(a) then return end
  local at = math.max(a.y, now)
  redis.call('ZADD', T .. ':due', 'LT', at, a.actor)
  if at == now then wake_worker() else wake_if_first(a) end
end

-- Sets the due time of a mailbox without messages: that of its first delayed one.
local function due_later(a)
  if a.d > 0 then
    redis.call('ZADD', T .. ':due', math.max(a.d, a.y), a.actor)
    wake_if_first(a)
  else
    redis.call('ZREM', T .. ':due', a.actor)
  end
end

local function keep_outcome(actor, message, outcome, keep)
  redis.call('SET', T .. ':o:' .. named(actor, message), outcome, 'PX', math.max(keep, 1))
end

-- Removes the first messages. Returns their ids and contents.
local function pop(a, count)
  local ids = count > 0 and redis.call('LPOP', a.M, count)
  if not ids then return {}, {} end
  a.b, a.c = math.max(a.b - #ids, 0), 0
  local messages = redis.call('HMGET', a.B, unpack(ids))
  redis.call('HDEL', a.B, unpack(ids))
  return ids, messages
end

local function ended(a, id, message, outcome, keep)
  keep_outcome(a.actor, id, outcome, keep)
  local asker = read(message)[3]
  if asker ~= '' then tell(asker) end
end

-- Turns the first message into a dead letter.
local function bury(a, why, keep)
  local attempts = a.c
  local ids, messages = pop(a, 1)
  local id, message = ids[1], messages[1]
  if not id then return end
  ended(a, id, message, 'x' .. why, keep)
  local place = redis.call('HINCRBY', T .. ':x', '', 1)
  local name = named(a.actor, id)
  redis.call('HSET', T .. ':x', name, cmsgpack.pack({a.actor, id, attempts, why, message or cmsgpack.pack(read(nil))}))
  redis.call('ZADD', T .. ':y', place, name)
end

-- The progress of a message: {kind, text, number, number}
--   0 unknown | 1 waits, ahead, busy | 2 runs, attempt, busy | 3 done | 4 dead | 5 withdrawn
--   6 delayed, left
local function outcome(a, id)
  if redis.call('HEXISTS', a.B, id) == 1 then
    local at = a.d > 0 and redis.call('ZSCORE', a.L, id)
    if at then return {6, '', at - now, 0} end
    local ahead = redis.call('LPOS', a.M, id)
    if ahead == 0 and drained(a) then return {2, '', a.c + 1, a.u - now} end
    if ahead then return {1, '', ahead, busy(a)} end
    -- Its place was deleted by hand.
  end
  local dead = redis.call('HGET', T .. ':x', named(a.actor, id))
  if dead then return {4, cmsgpack.unpack(dead)[4], 0, 0} end
  local text = redis.call('GET', T .. ':o:' .. named(a.actor, id))
  if not text then return {0, '', 0, 0} end
  local kinds = {d = 3, x = 4, w = 5}
  return {kinds[string.sub(text, 1, 1)], string.sub(text, 2), 0, 0}
end

-- Extends the lease to this time.
local function lasts(a, till)
  a.u = math.max(a.u, till)
  redis.call('HSET', a.K, 'u', a.u)
  redis.call('ZADD', T .. ':due', a.u, a.actor)
end

-- Claims a mailbox, and returns the answer of `Claim`.
local function claim(a, token, lease, most, limit, keep)
  if redis.call('EXISTS', T .. ':g:' .. token) == 1 then return {-1} end
  if a.t == token then
    lasts(a, now + lease)
    return hand(a, true)
  end
  if a.t then
    if a.u > now then return {1, a.u - now} end
    a.t, a.b = false, math.max(a.b, a.h)
    if a.h > 0 then
      a.c = a.c + 1
      if a.c >= limit then bury(a, 'the drainer ended while the message ran', keep) end
    end
    a.h = 0
    save(a)
  end
  if len(a) == 0 then
    due_later(a)
    return {0}
  end
  if a.y > now then return {1, a.y - now} end
  a.f = math.max(a.f + 1, now)
  a.t, a.u, a.s, a.h = token, now + lease, 0, most_of(a, most)
  save(a)
  redis.call('ZADD', T .. ':due', a.u, a.actor)
  return hand(a, true)
end

-- Releases a mailbox. Workers check what is left after this time.
local function let_go(a, wait)
  a.t, a.h = false, 0
  if len(a) == 0 then
    due_later(a)
  elseif wait == 0 then
    redis.call('ZREM', T .. ':due', a.actor)
    is_due(a)
  else
    redis.call('ZADD', T .. ':due', now + wait, a.actor)
  end
end
