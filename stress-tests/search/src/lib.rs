//! Searches over all states that a few clients of a store can reach, with requests that are lost,
//! late or doubled, clients that vanish, and time that passes at any moment. Each is a test.
