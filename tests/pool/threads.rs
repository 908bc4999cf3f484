//! A pool for which the system has too few threads.

use super::queues::tests::Token;
use super::*;

#[test]
fn a_pool_that_lacks_threads_tries_again() {
    for (stack, has) in [(1 << 20, true), (1 << 60, false)] {
        let name = "test".into();
        let config = PoolConfig { workers: 1, most: None, name, stack_size: Some(stack) };
        let (pool, error) = Pool::<Token>::start(config);
        assert_eq!(error.is_none(), has);
        let pool = Pool { lacks_threads: true, ..pool };
        assert_eq!(pool.has_threads(), has);
        pool.cut_off();
    }
}
