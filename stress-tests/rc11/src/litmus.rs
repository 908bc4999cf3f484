//! Programs whose executions under RC11 are known, from the literature or by counting: the tests of
//! the explorer itself.

use std::cell::RefCell;
use std::rc::Rc;

use crate::explorer::{Body, Report, Search, explore, outcome, run};
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed, Release, SeqCst};
use crate::sync::atomic::fence;

/// A program of a few threads on three locations, and what RC11 makes of it.
pub(crate) struct Litmus {
    pub(crate) name: &'static str,
    pub(crate) executions: u64,
    pub(crate) outcomes: usize,
    /// An outcome, and whether it is allowed.
    pub(crate) asked: (&'static [u64], bool),
    pub(crate) run: fn(Search) -> Report,
}

type Memory = Rc<[AtomicU64; 3]>;
type Code = fn(&[AtomicU64; 3]) -> Vec<u64>;

/// Runs the code; the outcome is what its threads return, then the final values if they are asked
/// for.
fn program<const N: usize>(search: Search, codes: [Code; N], finals: usize) -> Report {
    explore(search, &move || {
        let memory: Memory = Rc::new([AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0)]);
        let seen = Rc::new(RefCell::new([const { Vec::new() }; N]));
        run::<N>(std::array::from_fn(|index| {
            let (memory, seen, code) = (memory.clone(), seen.clone(), codes[index]);
            Box::new(move || {
                let values = code(&memory);
                seen.borrow_mut()[index] = values;
            }) as Body
        }));
        let mut all = seen.borrow().concat();
        all.extend(memory[..finals].iter().map(|at| at.load(Relaxed)));
        outcome(&all);
    })
}

/// Stores to one location and loads another.
fn stores_and_loads(first: &AtomicU64, second: &AtomicU64, order: [Ordering; 2]) -> Vec<u64> {
    first.store(1, order[0]);
    vec![second.load(order[1])]
}

macro_rules! litmus {
    ($($name:literal: $executions:literal, $outcomes:literal, $asked:expr => $allowed:literal,
       $finals:literal; $($code:expr),*;)*) => {
        &[$(Litmus {
            name: $name,
            executions: $executions,
            outcomes: $outcomes,
            asked: (&$asked, $allowed),
            run: |search| program(search, [$($code as Code),*], $finals),
        }),*]
    };
}

/// Each with the number of its executions and of their outcomes, an outcome and whether it is
/// allowed, and the number of locations whose final values belong to the outcome.
pub(crate) const LITMUS: &[Litmus] = litmus! {
    "SB, relaxed": 4, 4, [0, 0] => true, 0;
        |[x, y, _]| stores_and_loads(x, y, [Relaxed, Relaxed]),
        |[x, y, _]| stores_and_loads(y, x, [Relaxed, Relaxed]);
    "SB, release and acquire": 4, 4, [0, 0] => true, 0;
        |[x, y, _]| stores_and_loads(x, y, [Release, Acquire]),
        |[x, y, _]| stores_and_loads(y, x, [Release, Acquire]);
    // Loom shows it: it takes these accesses for AcqRel.
    "SB, accesses SeqCst": 3, 3, [0, 0] => false, 0;
        |[x, y, _]| stores_and_loads(x, y, [SeqCst, SeqCst]),
        |[x, y, _]| stores_and_loads(y, x, [SeqCst, SeqCst]);
    "SB, one load relaxed": 4, 4, [0, 0] => true, 0;
        |[x, y, _]| stores_and_loads(x, y, [SeqCst, SeqCst]),
        |[x, y, _]| stores_and_loads(y, x, [SeqCst, Relaxed]);
    "SB, fences": 3, 3, [0, 0] => false, 0;
        |[x, y, _]| { x.store(1, Relaxed); fence(SeqCst); vec![y.load(Relaxed)] },
        |[x, y, _]| { y.store(1, Relaxed); fence(SeqCst); vec![x.load(Relaxed)] };
    "SB, one fence": 4, 4, [0, 0] => true, 0;
        |[x, y, _]| { x.store(1, Relaxed); fence(SeqCst); vec![y.load(Relaxed)] },
        |[x, y, _]| stores_and_loads(y, x, [Relaxed, Relaxed]);
    "SB, fences AcqRel": 4, 4, [0, 0] => true, 0;
        |[x, y, _]| { x.store(1, Relaxed); fence(AcqRel); vec![y.load(Relaxed)] },
        |[x, y, _]| { y.store(1, Relaxed); fence(SeqCst); vec![x.load(Relaxed)] };
    // Loom does not show it: its read-modify-writes read the newest value.
    "SB, read by read-modify-writes": 4, 4, [0, 0] => true, 0;
        |[x, y, _]| { x.store(1, Relaxed); vec![y.fetch_or(0, AcqRel)] },
        |[x, y, _]| { y.store(1, Relaxed); vec![x.fetch_or(0, AcqRel)] };
    "MP, relaxed": 4, 4, [1, 0] => true, 0;
        |[x, y, _]| { x.store(1, Relaxed); y.store(1, Relaxed); vec![] },
        |[x, y, _]| vec![y.load(Relaxed), x.load(Relaxed)];
    "MP, release and acquire": 3, 3, [1, 0] => false, 0;
        |[x, y, _]| { x.store(1, Relaxed); y.store(1, Release); vec![] },
        |[x, y, _]| vec![y.load(Acquire), x.load(Relaxed)];
    "MP, release alone": 4, 4, [1, 0] => true, 0;
        |[x, y, _]| { x.store(1, Relaxed); y.store(1, Release); vec![] },
        |[x, y, _]| vec![y.load(Relaxed), x.load(Relaxed)];
    "MP, fences": 3, 3, [1, 0] => false, 0;
        |[x, y, _]| { x.store(1, Relaxed); fence(Release); y.store(1, Relaxed); vec![] },
        |[x, y, _]| { let seen = y.load(Relaxed); fence(Acquire); vec![seen, x.load(Relaxed)] };
    "MP, fence before the load": 4, 4, [1, 0] => true, 0;
        |[x, y, _]| { x.store(1, Relaxed); fence(Release); y.store(1, Relaxed); vec![] },
        |[x, y, _]| { fence(Acquire); vec![y.load(Relaxed), x.load(Relaxed)] };
    // Nor this one.
    "MP, read by a read-modify-write": 4, 4, [1, 0] => true, 0;
        |[x, y, _]| { x.store(1, Relaxed); y.store(1, Relaxed); vec![] },
        |[x, y, _]| vec![y.load(Relaxed), x.swap(2, Relaxed)];
    "MP, read by a failing compare-and-swap": 4, 4, [1, 0] => true, 0;
        |[x, y, _]| { x.store(1, Relaxed); y.store(1, Release); vec![] },
        |[x, y, _]| {
            vec![y.load(Relaxed), x.compare_exchange(7, 8, AcqRel, Acquire).unwrap_err()]
        };
    "MP, a failure that acquires": 3, 3, [1, 0] => false, 0;
        |[x, y, _]| { x.store(1, Relaxed); y.store(1, Release); vec![] },
        |[x, y, _]| {
            let seen = y.compare_exchange(7, 8, Relaxed, Acquire).unwrap_err();
            vec![seen, x.load(Relaxed)]
        };
    // No values out of thin air: RC11 forbids it, hardware and compilers may not.
    "LB, relaxed": 3, 3, [1, 1] => false, 0;
        |[x, y, _]| { let seen = x.load(Relaxed); y.store(1, Relaxed); vec![seen] },
        |[x, y, _]| { let seen = y.load(Relaxed); x.store(1, Relaxed); vec![seen] };
    // What a permit and a request of `turnwise-locks` would have to do to miss each other, were
    // they relaxed: loom does not show it either.
    "LB, by read-modify-writes": 3, 3, [4, 1, 0] => false, 0;
        |[x, y, _]| { let seen = x.fetch_or(2, Relaxed); y.store(1, Relaxed); vec![seen] },
        |[x, y, _]| vec![y.load(Relaxed), x.fetch_or(4, Relaxed)];
    "IRIW, acquire": 16, 16, [1, 0, 1, 0] => true, 0;
        |[x, _, _]| { x.store(1, Release); vec![] },
        |[_, y, _]| { y.store(1, Release); vec![] },
        |[x, y, _]| vec![x.load(Acquire), y.load(Acquire)],
        |[x, y, _]| vec![y.load(Acquire), x.load(Acquire)];
    "IRIW, SeqCst": 15, 15, [1, 0, 1, 0] => false, 0;
        |[x, _, _]| { x.store(1, SeqCst); vec![] },
        |[_, y, _]| { y.store(1, SeqCst); vec![] },
        |[x, y, _]| vec![x.load(SeqCst), y.load(SeqCst)],
        |[x, y, _]| vec![y.load(SeqCst), x.load(SeqCst)];
    "IRIW, fences between the loads": 15, 15, [1, 0, 1, 0] => false, 0;
        |[x, _, _]| { x.store(1, Relaxed); vec![] },
        |[_, y, _]| { y.store(1, Relaxed); vec![] },
        |[x, y, _]| { let a = x.load(Relaxed); fence(SeqCst); vec![a, y.load(Relaxed)] },
        |[x, y, _]| { let a = y.load(Relaxed); fence(SeqCst); vec![a, x.load(Relaxed)] };
    "2+2W, release": 4, 4, [1, 1] => true, 2;
        |[x, y, _]| { x.store(1, Release); y.store(2, Release); vec![] },
        |[x, y, _]| { y.store(1, Release); x.store(2, Release); vec![] };
    "2+2W, SeqCst": 3, 3, [1, 1] => false, 2;
        |[x, y, _]| { x.store(1, SeqCst); y.store(2, SeqCst); vec![] },
        |[x, y, _]| { y.store(1, SeqCst); x.store(2, SeqCst); vec![] };
    "2+2W, fences": 3, 3, [1, 1] => false, 2;
        |[x, y, _]| { x.store(1, Relaxed); fence(SeqCst); y.store(2, Relaxed); vec![] },
        |[x, y, _]| { y.store(1, Relaxed); fence(SeqCst); x.store(2, Relaxed); vec![] };
    "CoRR": 3, 3, [1, 0] => false, 0;
        |[x, _, _]| { x.store(1, Relaxed); vec![] },
        |[x, _, _]| vec![x.load(Relaxed), x.load(Relaxed)];
    "CoRR, two writers, two readers": 72, 47, [1, 2, 2, 1] => false, 0;
        |[x, _, _]| { x.store(1, Relaxed); vec![] },
        |[x, _, _]| { x.store(2, Relaxed); vec![] },
        |[x, _, _]| vec![x.load(Relaxed), x.load(Relaxed)],
        |[x, _, _]| vec![x.load(Relaxed), x.load(Relaxed)];
    "CoWR": 3, 2, [0] => false, 0;
        |[x, _, _]| { x.store(1, Relaxed); vec![x.load(Relaxed)] },
        |[x, _, _]| { x.store(2, Relaxed); vec![] };
    "WRC, relaxed": 8, 8, [1, 1, 0] => true, 0;
        |[x, _, _]| { x.store(1, Relaxed); vec![] },
        |[x, y, _]| { let seen = x.load(Relaxed); y.store(1, Relaxed); vec![seen] },
        |[x, y, _]| vec![y.load(Relaxed), x.load(Relaxed)];
    "WRC, release and acquire": 7, 7, [1, 1, 0] => false, 0;
        |[x, _, _]| { x.store(1, Relaxed); vec![] },
        |[x, y, _]| { let seen = x.load(Relaxed); y.store(1, Release); vec![seen] },
        |[x, y, _]| vec![y.load(Acquire), x.load(Relaxed)];
    "RWC, fences": 7, 7, [1, 0, 0] => false, 0;
        |[x, _, _]| { x.store(1, Relaxed); vec![] },
        |[x, y, _]| { let seen = x.load(Relaxed); fence(SeqCst); vec![seen, y.load(Relaxed)] },
        |[x, y, _]| { y.store(1, Relaxed); fence(SeqCst); vec![x.load(Relaxed)] };
    // The example with which RC11 was motivated: C11 as it was forbids it, Power shows it.
    "Z6.U": 24, 12, [1, 3, 0] => true, 0;
        |[x, y, _]| { x.store(1, SeqCst); y.store(1, Release); vec![] },
        |[_, y, _]| vec![y.fetch_add(1, SeqCst), y.load(Relaxed)],
        |[x, y, _]| { y.store(3, SeqCst); vec![x.load(SeqCst)] };
    "a release sequence": 9, 5, [2, 0] => false, 0;
        |[x, y, _]| { x.store(1, Relaxed); y.store(1, Release); vec![] },
        |[_, y, _]| { y.fetch_add(1, Relaxed); vec![] },
        |[x, y, _]| vec![y.load(Acquire), x.load(Relaxed)];
    "a release sequence ends at a plain store": 5, 5, [2, 0] => true, 0;
        |[x, y, _]| { x.store(1, Relaxed); y.store(1, Release); y.store(2, Relaxed); vec![] },
        |[x, y, _]| vec![y.load(Acquire), x.load(Relaxed)];
    "three additions": 6, 6, [0, 0, 0] => false, 0;
        |[x, _, _]| vec![x.fetch_add(1, Relaxed)],
        |[x, _, _]| vec![x.fetch_add(1, Relaxed)],
        |[x, _, _]| vec![x.fetch_add(1, Relaxed)];
    "atomicity beside stores": 2, 2, [0, 1] => false, 1;
        |[x, _, _]| vec![x.fetch_add(1, Relaxed)],
        |[x, _, _]| { x.store(2, Relaxed); vec![] };
};
