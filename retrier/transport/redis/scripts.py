"""What happens inside Redis, in one step each: a process that dies in between leaves nothing half done.

A *holder* is a consumer. `leases` names the holders of a queue, each with the time (of the server,
in ms) until which what it has in hand stays its own. A key with an expiry is not used for that: a
policy like volatile-lru might evict it. What a holder has in hand is a hash of its own: a field for
each message, `NUMBER:LIST`, where LIST is the place of the list from which it was taken.

Each script that takes or gives back begins with a command that needs no memory. So Redis runs it to
its end even when `maxmemory` is reached: a queue could else not be emptied, or a message be lost
between two commands.
"""

_NOW = """
local function now()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end
"""

LOST = "RETRIER the hold on the messages is lost"
"""The error of a script that finds no lease of this holder."""

ENTER = f"""{_NOW}
redis.call('ZREM', KEYS[1], ARGV[1])
return redis.call('ZADD', KEYS[1], now() + tonumber(ARGV[2]), ARGV[1])
"""
"""KEYS: leases. ARGV: holder, lease in ms."""

RENEW = f"""{_NOW}
if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('ZADD', KEYS[1], now() + tonumber(ARGV[2]), ARGV[1])
return 1
"""
"""The same; 0 if there is no such holder any more."""

FIND_OTHERS = f"""{_NOW}
local found = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
return {{tostring(now()), found}}
"""
"""KEYS: leases. Returns the time, and holders with the ends of their leases."""

_LISTS = """
local function why_no_lists(first)
  for i = first, #KEYS do
    local kind = redis.call('TYPE', KEYS[i]).ok
    if kind ~= 'list' and kind ~= 'none' then
      return 'WRONGTYPE the key ' .. KEYS[i] .. ' is a ' .. kind .. ', and no list'
    end
  end
end
"""

TAKE = f"""{_LISTS}
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then return redis.error_reply('{LOST}') end
local why_not = why_no_lists(5)
if why_not then return redis.error_reply(why_not) end
if redis.call('SISMEMBER', KEYS[4], ARGV[4]) == 1 then
  local active = redis.call('GET', KEYS[3])
  if active ~= ARGV[1] then
    if active and redis.call('ZSCORE', KEYS[1], active) then return {{}} end
    redis.call('DEL', KEYS[3])
    redis.call('SET', KEYS[3], ARGV[1])
  end
end
local number, size, got = tonumber(ARGV[3]), 0, {{}}
for i = 5, #KEYS do
  while #got < 2 * tonumber(ARGV[2]) and size < tonumber(ARGV[5]) do
    local payload = redis.call('RPOP', KEYS[i])
    if not payload then break end
    local field = number .. ':' .. (i - 5)
    redis.call('HSET', KEYS[2], field, payload)
    got[#got + 1] = field
    got[#got + 1] = payload
    number, size = number + 1, size + #payload
  end
end
return got
"""
"""KEYS: leases, held, active, staging queues, lists. ARGV: holder, limit, first number, queue, bytes.

Returns fields and payloads in turns. Types are looked at first: an error behind an RPOP would leave
messages in hand of which nobody knows.
"""

SETTLE = f"""
local gone = redis.call('HDEL', KEYS[2], unpack(ARGV, 2))
if gone < #ARGV - 1 and not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return redis.error_reply('{LOST}')
end
return gone
"""
"""KEYS: leases, held. ARGV: holder, fields."""

GIVE_BACK = f"""{_LISTS}
local why_not = why_no_lists(4)
if why_not then return redis.error_reply(why_not) end
local lease = redis.call('ZSCORE', KEYS[1], ARGV[1])
if ARGV[2] ~= '' and (not lease or tonumber(lease) ~= tonumber(ARGV[2])) then return -1 end
local given = 0
for i = 4, #ARGV, 3 do
  if redis.call('HDEL', KEYS[2], ARGV[i]) == 1 then
    redis.call('RPUSH', KEYS[4 + tonumber(ARGV[i + 1])], ARGV[i + 2])
    given = given + 1
  end
end
if ARGV[3] == '1' and redis.call('EXISTS', KEYS[2]) == 0 then
  redis.call('ZREM', KEYS[1], ARGV[1])
  if redis.call('GET', KEYS[3]) == ARGV[1] then redis.call('DEL', KEYS[3]) end
end
return given
"""
"""KEYS: leases, held, active, lists. ARGV: holder, the end of its lease or nothing, 1 if the holder
ends, then field, list and payload of each message; the one that was taken last comes first.

-1 if the lease has changed since it was looked at: then the holder lives.
"""

PUSH = """
local known = redis.call('SISMEMBER', KEYS[2], ARGV[1]) == 1
  or redis.call('SISMEMBER', KEYS[3], ARGV[2]) == 1
for i = 4, #KEYS do known = known or redis.call('EXISTS', KEYS[i]) == 1 end
if not known then return 0 end
redis.call('LPUSH', KEYS[1], ARGV[3])
return 1
"""
"""KEYS: list, known queues, binding set, all lists of the queue. ARGV: queue, member, payload.

0 if nobody has made the queue: then nothing is pushed.
"""

PROVE = """
redis.call('SADD', KEYS[1], '1')
return redis.call('SREM', KEYS[1], '1')
"""
"""KEYS: a set that is left empty. Fails while the server takes no writes."""

DELETE = """
for _, holder in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  redis.call('DEL', ARGV[2] .. holder)
end
redis.call('DEL', unpack(KEYS, 4))
redis.call('DEL', KEYS[1], KEYS[2])
redis.call('SREM', KEYS[3], ARGV[1])
return 1
"""
"""KEYS: leases, active, known queues, lists. ARGV: queue, held without its holder.

A staging queue stays known as ours. A consumer of Kombu's may have copies in hand, and puts them
back into the deleted queue: it would else hold messages of strangers, and could not be declared.
"""

COUNT = f"""{_LISTS}
local why_not = why_no_lists(2)
if why_not then return redis.error_reply(why_not) end
local count, known = 0, redis.call('SISMEMBER', KEYS[1], ARGV[1])
for i = 2, #KEYS do count = count + redis.call('LLEN', KEYS[i]) end
return {{count, known}}
"""
"""KEYS: known queues, lists. ARGV: queue. Returns how many are ready, and whether it is known."""

PURGE = """
local count = 0
for i = 1, #KEYS do
  count = count + redis.call('LLEN', KEYS[i])
  redis.call('DEL', KEYS[i])
end
return count
"""
"""KEYS: lists. Returns how many were dropped."""

DECLARE = """
redis.call('SREM', KEYS[1], ARGV[1])
return redis.call('SADD', KEYS[1], ARGV[1])
"""
"""KEYS: known queues. ARGV: queue."""

DECLARE_STAGING = """
if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 1 then return 0 end
local count = 0
for i = 2, #KEYS do count = count + redis.call('LLEN', KEYS[i]) end
if count == 0 then redis.call('SADD', KEYS[1], ARGV[1]) end
return count
"""
"""KEYS: staging queues, lists. ARGV: queue. Returns how many messages are in the way."""
