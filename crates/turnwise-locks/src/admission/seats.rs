//! The admitted applicants, and their places.
//!
//! An applicant is hashed once, before anything of its turn has happened, and its hash is kept: so
//! a table that grows calls no code of the user's.

use std::hash::{BuildHasher, Hash};

use hashbrown::{DefaultHashBuilder, HashTable};

struct Seat<Id> {
    hash: u64,
    id: Id,
    place: u64,
}

pub(super) struct Seats<Id> {
    table: HashTable<Seat<Id>>,
    hasher: DefaultHashBuilder,
}

/// The hashes of those who are in, which any thread may look at.
pub(super) struct Winners {
    hashes: Box<[u64]>,
    hasher: DefaultHashBuilder,
}

impl Winners {
    /// False: it is certainly not in. User code is in there.
    pub(super) fn may_hold<Id: Hash>(&self, id: &Id) -> bool {
        self.hashes.binary_search(&self.hasher.hash_one(id)).is_ok()
    }
}

impl<Id: Hash + Eq> Seats<Id> {
    pub(super) fn with_capacity(seats: usize) -> Self {
        Seats { table: HashTable::with_capacity(seats), hasher: DefaultHashBuilder::default() }
    }

    /// User code is in there, as in whatever compares applicants.
    pub(super) fn hash(&self, id: &Id) -> u64 {
        self.hasher.hash_one(id)
    }

    /// The place of an applicant that has this hash.
    pub(super) fn place(&self, hash: u64, id: &Id) -> Option<u64> {
        self.table.find(hash, |seat| seat.id == *id).map(|seat| seat.place)
    }

    /// An applicant who has this hash, and no place.
    pub(super) fn insert(&mut self, hash: u64, id: Id, place: u64) {
        self.table.insert_unique(hash, Seat { hash, id, place }, |seat| seat.hash);
    }

    /// Two rows of one applicant are two rows. The first place is the applicant's.
    pub(super) fn insert_first(&mut self, id: Id, place: u64) {
        let hash = self.hash(&id);
        match self.table.find_mut(hash, |seat| seat.id == id) {
            Some(seat) => seat.place = place.min(seat.place),
            None => self.insert(hash, id, place),
        }
    }

    /// Those who are in, for good.
    pub(super) fn winners(&self) -> Winners {
        let mut hashes: Vec<_> = self.table.iter().map(|seat| seat.hash).collect();
        hashes.sort_unstable();
        Winners { hashes: hashes.into(), hasher: self.hasher.clone() }
    }

    /// Returns the entry that was inserted, to be dropped.
    pub(super) fn remove(&mut self, hash: u64, id: &Id) -> Option<Id> {
        let seat = self.table.find_entry(hash, |seat| seat.id == *id).ok()?;
        Some(seat.remove().0.id)
    }
}
