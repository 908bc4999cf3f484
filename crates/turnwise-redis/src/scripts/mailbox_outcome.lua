-- Returns the progress of a message.
--
-- ARGV[3]  actor   ARGV[4]  id
--
-- {kind, text, number, number}: see `outcome`
return outcome(load(ARGV[3]), ARGV[4])
