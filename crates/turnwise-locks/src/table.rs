//! The entries of a shard: found by hash and identity, and by their place.
//!
//! Entries lie in a row, and stay where they are put until they are taken out: so an index is as
//! good as an address, and nothing has to be looked for to change an entry that one knows. What is
//! looked for lies in an index of four bytes each, which is what grows by doubling.
//!
//! - TABLE-1: a place in the row is full, or in the chain of the free ones.
//! - TABLE-2: the index has the number of each full place, and no other.
//! - TABLE-3: kept entries are in one more chain, in the order in which they were put there.

use hashbrown::HashTable;

/// The part of an entry that a table needs.
pub(crate) trait Hashed {
    fn hash(&self) -> u64;
}

/// The part that the chain of kept ones needs.
pub(crate) trait Linked: Hashed {
    fn links(&mut self) -> &mut Links;
}

/// An entry's place in the chain of kept ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links {
    before: u32,
    after: u32,
}

/// No place.
const NONE: u32 = u32::MAX;
/// Below this size nothing is given back.
const SMALL: usize = 256;

impl Links {
    pub(crate) const NONE: Links = Links { before: NONE, after: NONE };
}

enum TablePlace<E> {
    Full(E),
    /// And the next free one.
    Free(u32),
}

pub(crate) struct Table<E> {
    index: HashTable<u32>,
    row: Vec<TablePlace<E>>,
    free: u32,
    first: u32,
    last: u32,
    /// With fewer entries than this, memory is given back.
    shrink: usize,
}

impl<E: Hashed> Table<E> {
    pub(crate) fn new() -> Self {
        Table {
            index: HashTable::new(),
            row: Vec::new(),
            free: NONE,
            first: NONE,
            last: NONE,
            shrink: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &E> {
        self.row.iter().filter_map(|place| match place {
            TablePlace::Full(entry) => Some(entry),
            TablePlace::Free(_) => None,
        })
    }

    /// The entry in a place that is full.
    pub(crate) fn get(&mut self, at: u32) -> &mut E {
        full(&mut self.row, at)
    }

    /// The place of an entry with this hash of which `is` is true. User code may be in there.
    pub(crate) fn find(&self, hash: u64, is: impl Fn(&E) -> bool) -> Option<u32> {
        let found = self.index.find(hash, |&at| match &self.row[at as usize] {
            TablePlace::Full(entry) => entry.hash() == hash && is(entry),
            TablePlace::Free(_) => unreachable!("T2"),
        });
        found.copied()
    }

    /// Puts an entry there whose like is not there.
    pub(crate) fn insert(&mut self, entry: E) -> u32 {
        let hash = entry.hash();
        let at = self.free;
        let at = if at == NONE {
            let at = u32::try_from(self.row.len()).ok().filter(|at| *at < NONE);
            self.row.push(TablePlace::Full(entry));
            self.shrink = self.row.capacity() / 8;
            at.expect("four billion keys are enough for a shard")
        } else {
            match std::mem::replace(&mut self.row[at as usize], TablePlace::Full(entry)) {
                TablePlace::Free(next) => self.free = next,
                TablePlace::Full(_) => unreachable!("T1"),
            }
            at
        };
        let row = &self.row;
        self.index.insert_unique(hash, at, |&at| match &row[at as usize] {
            TablePlace::Full(entry) => entry.hash(),
            TablePlace::Free(_) => unreachable!("T2"),
        });
        at
    }

    /// Takes an entry out that is in no chain.
    pub(crate) fn remove(&mut self, at: u32) -> E {
        let place = std::mem::replace(&mut self.row[at as usize], TablePlace::Free(self.free));
        let TablePlace::Full(entry) = place else { unreachable!("only a full place is emptied") };
        self.free = at;
        if let Ok(found) = self.index.find_entry(entry.hash(), |&other| other == at) {
            found.remove();
        }
        if self.len() < self.shrink {
            self.shrink();
        }
        entry
    }

    /// Gives memory back. As the limit is halved each time, this is a constant for each entry.
    #[cold]
    fn shrink(&mut self) {
        if self.row.capacity() <= SMALL {
            self.shrink = 0;
            return;
        }
        while matches!(self.row.last(), Some(TablePlace::Free(_))) {
            self.row.pop();
        }
        self.shrink = self.len() / 2;
        self.row.shrink_to(self.row.len() * 2);
        self.free = NONE;
        for (at, place) in self.row.iter_mut().enumerate().rev() {
            if let TablePlace::Free(next) = place {
                *next = self.free;
                self.free = at as u32;
            }
        }
        let (len, row) = (self.len(), &self.row);
        self.index.shrink_to(len * 2, |&at| match &row[at as usize] {
            TablePlace::Full(entry) => entry.hash(),
            TablePlace::Free(_) => unreachable!("T2"),
        });
    }

    /// The first of the chain.
    pub(crate) fn first_kept(&self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }
}

impl<E: Linked> Table<E> {
    /// Puts an entry at the end of the chain of kept ones, in which it is not.
    pub(crate) fn keep(&mut self, at: u32) {
        let before = self.last;
        *self.get(at).links() = Links { before, after: NONE };
        self.last = at;
        match before {
            NONE => self.first = at,
            before => self.get(before).links().after = at,
        }
    }

    /// Takes an entry out of the chain, in which it is.
    pub(crate) fn unkeep(&mut self, at: u32) {
        let Links { before, after } = std::mem::replace(self.get(at).links(), Links::NONE);
        match before {
            NONE => self.first = after,
            before => self.get(before).links().after = after,
        }
        match after {
            NONE => self.last = before,
            after => self.get(after).links().before = before,
        }
    }
}

fn full<E>(row: &mut [TablePlace<E>], at: u32) -> &mut E {
    match &mut row[at as usize] {
        TablePlace::Full(entry) => entry,
        TablePlace::Free(_) => unreachable!("T1: it is there"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Number(u64, Links);

    impl Hashed for Number {
        fn hash(&self) -> u64 {
            // Many of one hash.
            (self.0 % 97).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        }
    }

    impl Linked for Number {
        fn links(&mut self) -> &mut Links {
            &mut self.1
        }
    }

    fn kept(table: &mut Table<Number>) -> Vec<u64> {
        let (mut all, mut at) = (Vec::new(), table.first_kept());
        while let Some(here) = at {
            let entry = table.get(here);
            all.push(entry.0);
            at = Some(entry.1.after).filter(|after| *after != NONE);
        }
        all
    }

    #[test]
    fn as_a_plain_list_would() {
        let mut table = Table::new();
        let (mut there, mut chain) = (Vec::<(u64, u32)>::new(), Vec::<u64>::new());
        let mut seed = 7_u64;
        for step in 0..60_000_u64 {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let random = (seed >> 33) as usize;
            // Grows for a while, and then goes down again.
            let grows = (step / 10_000) % 2 == 0;
            if there.is_empty() || (random % 10 < 7) == grows {
                let at = table.insert(Number(step, Links::NONE));
                there.push((step, at));
            } else {
                let (number, at) = there.swap_remove(random % there.len());
                if let Some(place) = chain.iter().position(|other| *other == number) {
                    chain.remove(place);
                    table.unkeep(at);
                }
                assert_eq!(table.remove(at).0, number);
                assert!(
                    table.find(Number(number, Links::NONE).hash(), |e| e.0 == number).is_none()
                );
            }
            if let Some(&(number, at)) = there.get(random % there.len().max(1)) {
                let hash = Number(number, Links::NONE).hash();
                assert_eq!(table.find(hash, |entry| entry.0 == number), Some(at));
                if chain.len() < 50 && !chain.contains(&number) {
                    chain.push(number);
                    table.keep(at);
                }
            }
            assert_eq!(table.len(), there.len());
            if step % 64 == 0 {
                assert_eq!(kept(&mut table), chain);
                assert_eq!(table.iter().count(), there.len());
            }
        }
        for (number, at) in there {
            if chain.contains(&number) {
                table.unkeep(at);
            }
            assert_eq!(table.remove(at).0, number);
        }
        assert!(table.first_kept().is_none());
        assert!(table.row.capacity() <= SMALL && table.index.capacity() <= SMALL, "memory is back");
    }
}
