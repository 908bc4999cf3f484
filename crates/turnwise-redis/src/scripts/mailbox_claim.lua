-- Claims a mailbox.
--
-- ARGV[3]  actor   ARGV[4]  token   ARGV[5]  lease   ARGV[6]  most   ARGV[7]  attempts
-- ARGV[8]  time that the outcome of a dead letter is kept (ms)
--
-- {2, ..} claimed | {1, left} busy | {0} no messages | {-1} the request was given up
local a = load(ARGV[3])
return claim(a, ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]),
  tonumber(ARGV[8]))
