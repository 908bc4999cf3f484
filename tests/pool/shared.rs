//! The number of workers that search at a time.

use super::*;

#[test]
fn half_the_workers_search_at_most() {
    for (workers, most) in [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (8, 4)] {
        let idle = Idle::new(workers);
        let searching = (0..10).filter(|_| idle.start_search()).count();
        assert_eq!((searching, idle.look().searchers()), (most, most as u64));
        for left in (0..most as u64).rev() {
            // None sleeps who could be woken.
            idle.found(|| unreachable!("no worker is to look"));
            assert_eq!(idle.look().searchers(), left);
        }
        assert!(idle.start_search());
    }
}
