//! A value that is shared without being reached.

/// A value that can be shared because a shared reference to it does nothing.
pub(crate) struct Exclusive<T>(T);

// SAFETY: a shared reference gives no access to the value.
unsafe impl<T> Sync for Exclusive<T> {}

impl<T> Exclusive<T> {
    pub(crate) const fn new(value: T) -> Self {
        Exclusive(value)
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        &mut self.0
    }

    pub(crate) fn into_inner(self) -> T {
        self.0
    }
}
