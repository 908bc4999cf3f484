//! A table, its clock, and the commands on it.

use std::sync::{Arc, Weak};

use turnwise::MonotonicClock;
use turnwise::time::Timers;

use crate::command::Many;
use crate::frame::Args;
use crate::reply;
use crate::table::{Key, Table, Visit};
use crate::value::{self, Cell, Clock, Op, Value};

/// The state that all sessions share.
///
/// A value that expires has a timer, which removes it. A command that comes before the timer finds
/// the value expired by the clock.
pub struct Store<T> {
    table: T,
    clock: Clock,
    me: Weak<Self>,
}

impl<T: Table + Default> Store<T> {
    /// # Errors
    /// The system provides no thread for the timers.
    pub fn new() -> Result<Arc<Self>, std::io::Error> {
        let clock = Clock::new(Timers::new(MonotonicClock)?);
        Ok(Arc::new_cyclic(|me| Store { table: T::default(), clock, me: me.clone() }))
    }
}

impl<T: Table> Store<T> {
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Drops all keys. This may take long.
    pub fn clear(&self) {
        self.table.clear();
    }

    /// Runs a command on one key, and appends its reply.
    pub fn one(&self, key: &[u8], op: Op<'_>, out: &mut Vec<u8>) {
        self.table.with(key, |cell| {
            self.change(key, cell, |value| value::apply(value, op, &self.clock, out));
        });
    }

    /// Runs a command on several keys, and appends its reply.
    pub fn many(&self, many: Many, args: Args<'_>, out: &mut Vec<u8>) {
        let mut args = args.from(1);
        let mut keys: Vec<Key> = Vec::new();
        let mut values = Vec::new();
        while let Some(key) = args.next() {
            keys.push(Key::from_slice(key));
            if many == Many::Set {
                values.push(args.next().unwrap_or_default().to_vec());
            }
        }
        let Some(store) = self.me.upgrade() else { unreachable!("it is borrowed") };
        let len = keys.len();
        let visitor = Visitor { store, many, values, found: 0, out: std::mem::take(out) };
        if many == Many::Get {
            let mut visitor = visitor;
            reply::array(len, &mut visitor.out);
            *out = self.table.with_all(keys, visitor).out;
            return;
        }
        let visitor = self.table.with_all(keys, visitor);
        *out = visitor.out;
        match many {
            Many::Set => reply::ok(out),
            _ => reply::integer(visitor.found, out),
        }
    }

    /// Changes a value with `f`, and sets its timer accordingly.
    fn change(&self, key: &[u8], cell: &mut Cell, f: impl FnOnce(&mut Option<Value>)) {
        let expires = |cell: &Cell| cell.value.as_ref().and_then(|value| value.expires);
        let before = expires(cell);
        f(&mut cell.value);
        let after = expires(cell);
        if before == after {
            return;
        }
        cell.alarm = after.map(|at| {
            let (store, key) = (self.me.clone(), Key::from_slice(key));
            self.clock.alarm(at, move || {
                if let Some(store) = store.upgrade() {
                    store.expire(&key);
                }
            })
        });
    }

    /// Removes a value whose timer has fired.
    fn expire(&self, key: &[u8]) {
        self.table.with(key, |cell| {
            self.change(key, cell, |value| _ = value::alive(value, &self.clock));
        });
    }
}

/// A command on several keys, in progress.
struct Visitor<T> {
    store: Arc<Store<T>>,
    many: Many,
    values: Vec<Vec<u8>>,
    found: i64,
    out: Vec<u8>,
}

impl<T: Table> Visit for Visitor<T> {
    fn visit(&mut self, n: usize, key: &[u8], cell: &mut Cell) {
        let Visitor { store, many, values, found, out } = self;
        let clock = &store.clock;
        store.change(key, cell, |value| {
            let alive = value::alive(value, clock);
            *found += i64::from(alive.is_some());
            match many {
                Many::Get => value::get(alive, out),
                Many::Exists => {}
                Many::Del => *value = None,
                Many::Set => {
                    *value = Some(Value { bytes: std::mem::take(&mut values[n]), expires: None })
                }
            }
        });
    }
}
