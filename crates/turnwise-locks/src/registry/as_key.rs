//! Keys as calls have them: their own, or borrowed ones that are cloned if they are not there.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

/// A key of a call.
pub(crate) trait AsKey<K> {
    /// True if its [`own`](Self::own) is user code: then not under the lock of a shard.
    const BORROWED: bool;

    /// The hash of the key.
    fn hash_by(&self, hasher: &impl BuildHasher) -> u64;
    /// True if it is this one.
    fn is(&self, key: &K) -> bool;
    /// The key itself.
    fn own(self) -> K;
}

/// A key that the call has been given.
pub(crate) struct Own<K>(pub(crate) K);

impl<K: Hash + Eq> AsKey<K> for Own<K> {
    const BORROWED: bool = false;

    fn hash_by(&self, hasher: &impl BuildHasher) -> u64 {
        hasher.hash_one(&self.0)
    }

    fn is(&self, key: &K) -> bool {
        self.0 == *key
    }

    fn own(self) -> K {
        self.0
    }
}

impl<K: Borrow<Q>, Q: Hash + Eq + ToOwned<Owned = K> + ?Sized> AsKey<K> for &Q {
    const BORROWED: bool = true;

    fn hash_by(&self, hasher: &impl BuildHasher) -> u64 {
        hasher.hash_one(*self)
    }

    fn is(&self, key: &K) -> bool {
        **self == *key.borrow()
    }

    fn own(self) -> K {
        self.to_owned()
    }
}
