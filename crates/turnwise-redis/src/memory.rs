//! A store in this process.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use turnwise::time::Clock;

use crate::engine::{Change, Engine, Loaded, Over, Read, Which};
use crate::error::StoreError;
use crate::step::{Notice, Op};
use crate::store::{Called, Life, NoticeSink, Store};
use crate::view::{self, Whole};

/// Objects in the memory of this process, with the same steps as in a server: for tests, and for
/// programs of one process. Clones share the same store.
///
/// A record is forgotten ten minutes after its last use.
#[derive(Clone)]
pub struct MemoryStore {
    memory: Memory,
    over: Over<Memory>,
}

/// The engine.
#[derive(Clone)]
struct Memory {
    shared: Arc<MemoryShared>,
}

struct MemoryShared {
    clock: Box<dyn Fn() -> Duration + Send + Sync>,
    objects: Mutex<Objects>,
}

#[derive(Default)]
struct Objects {
    objects: BTreeMap<String, VersionedRows>,
    /// The number of swaps until all objects are checked for their expiry.
    swaps: usize,
}

#[derive(Default)]
struct VersionedRows {
    version: u64,
    expires: Option<Duration>,
    rows: Whole,
}

impl MemoryStore {
    /// A store with this machine's time, which never goes back.
    pub fn new() -> Self {
        let (began, instant) = (SystemTime::now(), Instant::now());
        let began = began.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        MemoryStore::with(move || began + instant.elapsed())
    }

    /// A store with the time of a clock: a [`VirtualClock`](turnwise::VirtualClock) in tests.
    pub fn by(clock: impl Clock + 'static) -> Self {
        MemoryStore::with(move || clock.now())
    }

    fn with(clock: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        let shared = MemoryShared { clock: Box::new(clock), objects: Mutex::default() };
        let memory = Memory { shared: Arc::new(shared) };
        MemoryStore { over: Over::inline(memory.clone()), memory }
    }

    /// Forgets a record, or only its queue, as `DEL` of the key does in a server. For tests.
    #[doc(hidden)]
    pub fn forget_key(&self, key: &str) {
        let objects = &mut self.memory.objects().objects;
        match key.split_once("}:") {
            Some((object, part)) => {
                if let Some(object) = objects.get_mut(&format!("{object}}}")) {
                    object.version += 1;
                    view::forget_part(&mut object.rows, part);
                }
            }
            None => drop(objects.remove(key)),
        }
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        MemoryStore::new()
    }
}

impl Memory {
    fn objects(&self) -> MutexGuard<'_, Objects> {
        // A clock that panics has changed nothing.
        self.shared.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine for Memory {
    fn load(&mut self, reads: &[Read]) -> Result<Vec<Loaded>, StoreError> {
        let objects = self.objects();
        let now = (self.shared.clock)();
        let load = |read: &Read| match objects.objects.get(&read.object) {
            Some(object) => Loaded { now, version: object.version, rows: object.read(&read.rows) },
            None => Loaded { now, version: 0, rows: Vec::new() },
        };
        Ok(reads.iter().map(load).collect())
    }

    fn swap(&mut self, changes: &[Change], _: &[Notice]) -> Result<bool, StoreError> {
        let mut all = self.objects();
        let now = (self.shared.clock)();
        let Objects { objects, swaps } = &mut *all;
        let version = |key: &str| objects.get(key).map_or(0, |object| object.version);
        if changes.iter().any(|change| version(&change.object) != change.version) {
            return Ok(false);
        }
        for Change { object, version, expires, rows, .. } in changes {
            let object = objects.entry(object.clone()).or_default();
            (object.version, object.expires) = (version + 1, *expires);
            for (key, row) in rows {
                match row {
                    Some(row) => drop(object.rows.insert(key.clone(), row.clone())),
                    None => drop(object.rows.remove(key)),
                }
            }
        }
        *swaps = swaps.saturating_sub(1);
        if *swaps == 0 {
            objects.retain(|_, object| object.expires.is_none_or(|expires| expires > now));
            *swaps = objects.len().max(64);
        }
        Ok(true)
    }

    fn life(&self) -> Option<Life> {
        let run = format!("memory at {:p}", Arc::as_ptr(&self.shared));
        Some(Life { run, began: None })
    }
}

impl VersionedRows {
    fn read(&self, which: &[Which]) -> Vec<(String, view::Value)> {
        let mut rows = Vec::new();
        for which in which {
            match which {
                Which::Key(key) => rows.extend(self.rows.get_key_value(key)),
                Which::First { prefix, after, most } => {
                    let from = after.as_ref().unwrap_or(prefix);
                    let behind = self.rows.range(from.clone()..);
                    let behind = behind.filter(|(key, _)| after.as_ref() != Some(key));
                    rows.extend(behind.take_while(|(key, _)| key.starts_with(prefix)).take(*most));
                }
            }
        }
        rows.into_iter().map(|(key, row)| (key.clone(), row.clone())).collect()
    }
}

impl Store for MemoryStore {
    fn call<'a>(&'a self, op: &'a Op) -> Called<'a> {
        self.over.call(op)
    }

    fn listen(&self, client: &str, sink: NoticeSink) {
        self.over.listen(client, sink);
    }

    fn forget(&self, client: &str) {
        self.over.forget(client);
    }

    fn life(&self) -> Option<Life> {
        self.over.life()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let len = self.memory.objects().objects.len();
        f.debug_struct("MemoryStore").field("records", &len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;
    use std::task::{Context, Wake, Waker};

    use super::*;
    use crate::engine::run;
    use crate::error::Effect;
    use crate::step::{
        AdmissionAct, AdmissionStep, Advance, Claim, DrainClaim, FailedAttempt, MailboxAct,
        MailboxStep, Step, StoredMessage, Then, Token,
    };
    use crate::view::Value;

    const SECOND: Duration = Duration::from_secs(1);

    fn token(number: u64) -> Token {
        Token::new("c", number)
    }

    fn steps() -> Vec<Op> {
        let op = |key: &str, step| Op { key: key.to_owned(), places: 1, above: 0, step };
        let mut ops = Vec::new();
        for number in 1..3 {
            let step = Step::Acquire { token: token(number), lease: SECOND, alive: Some(SECOND) };
            ops.push(op("t:{lock:a}", step));
        }
        ops.push(op("t:{lock:a}", Step::Begin { token: token(1) }));
        ops.push(op("t:{lock:a}", Step::Leave { token: token(3), late: true }));
        let claim = |n: u64| Claim { token: token(n), applicant: format!("p{n}") };
        for number in 1..3 {
            let (lease, alive) = (SECOND, Some(SECOND));
            let act = AdmissionAct::Reserve { claim: claim(number), lease, alive };
            let step = Step::Admission(AdmissionStep { limit: 1, act });
            ops.push(op("t:{admission:b}", step));
        }
        let mut admit = |act| {
            let step = Step::Admission(AdmissionStep { limit: 3, act });
            ops.push(op("t:{admission:a}", step));
        };
        admit(AdmissionAct::Admit { claim: claim(1), row: vec![0, 255], alive: None });
        for number in 2..5 {
            let (lease, alive) = (SECOND, Some(SECOND));
            admit(AdmissionAct::Reserve { claim: claim(number), lease, alive });
        }
        admit(AdmissionAct::Cancel { claim: claim(4), late: true });
        admit(AdmissionAct::Cancel { claim: claim(2), late: false });
        let actor = || "b".to_owned();
        let mut send = |act| {
            ops.push(op("t:{actor:a/0}", Step::Mailbox(MailboxStep { shards: 1, act })));
        };
        let worker = token(8);
        send(MailboxAct::Due { worker, alive: SECOND, most: 1, grip: SECOND });
        for number in 0..4 {
            let (id, name, body) = (format!("m{number}"), "add".to_owned(), vec![number, 255]);
            let message = StoredMessage { id, name, body, asker: Some(token(9)) };
            let delay = if number == 3 { SECOND } else { Duration::ZERO };
            send(MailboxAct::Push { actor: actor(), message, delay, claim: None });
        }
        let drain = |number| DrainClaim {
            token: token(number),
            lease: SECOND,
            most: 3,
            attempts: 3,
            keep: SECOND,
        };
        send(MailboxAct::Claim { actor: actor(), claim: drain(5) });
        send(MailboxAct::Advance(Advance {
            actor: actor(),
            fence: 1_000_000,
            number: 1,
            done: vec![vec![7]],
            state: Some(vec![1, 2, 3]),
            failed: Some(FailedAttempt { error: "why".to_owned(), again: None }),
            keep: SECOND,
            then: Then::LetGo { after: Duration::ZERO },
        }));
        let (message, keep) = ("m9".to_owned(), SECOND);
        send(MailboxAct::Withdraw { actor: actor(), message, late: true, keep });
        send(MailboxAct::Abandon { actor: actor(), token: token(6) });
        send(MailboxAct::Claim { actor: actor(), claim: drain(7) });
        ops
    }

    /// Rows of each kind have the bytes that this version of the format has, for ever.
    #[test]
    fn the_format_of_rows_is_stable() {
        let clock = turnwise::VirtualClock::new();
        clock.advance(SECOND);
        let store = MemoryStore::by(clock);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for op in steps() {
            runtime.block_on(store.call(&op)).unwrap();
        }
        let mut text = String::new();
        for (key, object) in &store.memory.objects().objects {
            writeln!(text, "{key} {} {:?}", object.version, object.expires).unwrap();
            for (key, row) in &object.rows {
                let bytes = row.to_bytes();
                assert_eq!(Value::from_bytes(&bytes).as_ref(), Ok(row));
                assert!(Value::from_bytes(&bytes[..bytes.len() - 1]).is_err());
                let hex = bytes.iter().map(|byte| format!("{byte:02x}"));
                writeln!(text, "    {key} {}", hex.collect::<String>()).unwrap();
            }
        }
        println!("{text}");
        assert_eq!(text, include_str!("memory/rows.txt"));
    }

    /// An engine whose objects are changed by others before its last load of a number.
    struct Jumps {
        memory: Memory,
        loads: usize,
    }

    impl Engine for Jumps {
        fn load(&mut self, reads: &[Read]) -> Result<Vec<Loaded>, StoreError> {
            self.loads = self.loads.wrapping_sub(1);
            if self.loads == 0 {
                let mut objects = self.memory.objects();
                objects.objects.values_mut().for_each(|object| object.version += 1);
            }
            self.memory.load(reads)
        }

        fn swap(&mut self, changes: &[Change], notices: &[Notice]) -> Result<bool, StoreError> {
            self.memory.swap(changes, notices)
        }
    }

    /// An engine whose next load panics.
    struct Panics(Memory, bool);

    impl Engine for Panics {
        fn load(&mut self, reads: &[Read]) -> Result<Vec<Loaded>, StoreError> {
            assert!(!std::mem::take(&mut self.1), "the load panics");
            self.0.load(reads)
        }

        fn swap(&mut self, changes: &[Change], notices: &[Notice]) -> Result<bool, StoreError> {
            self.0.swap(changes, notices)
        }
    }

    struct PanicsAsWoken;

    impl Wake for PanicsAsWoken {
        fn wake(self: Arc<Self>) {
            panic!("the waker panics");
        }
    }

    /// A store's thread goes on after an engine, or the waker of a caller, has panicked.
    #[test]
    fn a_panic_ends_one_call_and_no_other() {
        let memory = MemoryStore::new().memory;
        let over = Over::new(Panics(memory, true)).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let steps = steps();
        let unknown = StoreError::TimedOut { effect: Effect::Unknown };
        assert_eq!(runtime.block_on(over.call(&steps[0])), Err(unknown));
        let mut woken = over.call(&steps[0]);
        let waker = Waker::from(Arc::new(PanicsAsWoken));
        // Its answer may be there already.
        let _ = woken.as_mut().poll(&mut Context::from_waker(&waker));
        for step in &steps[..3] {
            assert!(runtime.block_on(over.call(step)).is_ok());
        }
    }

    /// An engine in which another client makes a step before a load of this number.
    struct Meets {
        memory: Memory,
        loads: usize,
        other: Option<Op>,
    }

    impl Engine for Meets {
        fn load(&mut self, reads: &[Read]) -> Result<Vec<Loaded>, StoreError> {
            self.loads = self.loads.wrapping_sub(1);
            if self.loads == 0
                && let Some(other) = self.other.take()
            {
                run(&mut self.memory, &[&other], &mut Vec::new())?;
            }
            self.memory.load(reads)
        }

        fn swap(&mut self, changes: &[Change], notices: &[Notice]) -> Result<bool, StoreError> {
            self.memory.swap(changes, notices)
        }
    }

    /// Steps that read, of which several loads are needed by some.
    fn reads() -> Vec<Op> {
        let op = |key: &str, step| Op { key: key.to_owned(), places: 1, above: 0, step };
        let mut ops = vec![op("t:{lock:a}", Step::Look)];
        for (name, limit) in [("a", 3), ("b", 1)] {
            for act in [AdmissionAct::Look, AdmissionAct::Rows { from: 0, most: 9 }] {
                let step = Step::Admission(AdmissionStep { limit, act });
                ops.push(op(&format!("t:{{admission:{name}}}"), step));
            }
        }
        let actor = || "b".to_owned();
        let outcome =
            |message: &str| MailboxAct::Outcome { actor: actor(), message: message.to_owned() };
        let acts = [
            MailboxAct::Look { actor: actor() },
            MailboxAct::DeadLetters { from: 0, most: 9 },
            outcome("m0"),
            outcome("m1"),
            outcome("m2"),
            outcome("m3"),
        ];
        let mailbox = |act| op("t:{actor:a/0}", Step::Mailbox(MailboxStep { shards: 1, act }));
        ops.extend(acts.map(mailbox));
        ops
    }

    /// A step that only reads answers with the rows of one moment, although another client writes
    /// between two of its loads. So does one that also writes.
    #[test]
    fn no_answer_is_of_rows_of_two_moments() {
        let store = |before: &[Op]| {
            let clock = turnwise::VirtualClock::new();
            clock.advance(SECOND);
            let memory = MemoryStore::by(clock.clone()).memory;
            for op in before {
                run(&mut memory.clone(), &[op], &mut Vec::new()).unwrap();
            }
            // What was delayed arrives with the next step.
            clock.advance(SECOND);
            memory
        };
        let (steps, mut between) = (steps(), 0);
        let all: Vec<_> = reads().into_iter().chain(steps.clone()).collect();
        for (index, other) in steps.iter().enumerate() {
            let before = &steps[..index];
            for op in all.iter().filter(|op| op.key == other.key) {
                let alone = |ops: &[&Op]| {
                    let mut memory = store(before);
                    let answers = ops.iter().map(|op| run(&mut memory, &[op], &mut Vec::new()));
                    answers.last().unwrap().unwrap().remove(0)
                };
                let (first, second) = (alone(&[op]), alone(&[other, op]));
                for loads in 1.. {
                    let other = Some(other.clone());
                    let mut engine = Meets { memory: store(before), loads, other };
                    let answer = run(&mut engine, &[op], &mut Vec::new()).unwrap().remove(0);
                    if engine.other.is_some() {
                        assert_eq!(answer, first, "{op:?}");
                        break;
                    }
                    between += usize::from(loads > 1 && first != second);
                    assert_eq!(answer, second, "{op:?} at load {loads} of {:?}", steps[index]);
                }
            }
        }
        // Some reads have several loads, between which the answer changes.
        assert!(between > 20, "{between}");
    }

    /// Steps one by one, each of which finds at one of its loads that its object has changed, leave
    /// the rows that steps without this leave.
    #[test]
    fn steps_whose_objects_change_between_loads_are_run_again() {
        let rows = |loads: usize| {
            let clock = turnwise::VirtualClock::new();
            clock.advance(SECOND);
            let store = MemoryStore::by(clock);
            let mut engine = Jumps { memory: store.memory.clone(), loads: 0 };
            for op in steps() {
                engine.loads = loads;
                run(&mut engine, &[&op], &mut Vec::new()).unwrap();
            }
            let objects = store.memory.objects();
            let rows =
                objects.objects.iter().map(|(key, object)| (key.clone(), object.rows.clone()));
            rows.collect::<Vec<_>>()
        };
        let undisturbed = rows(0);
        (1..10).for_each(|loads| assert_eq!(rows(loads), undisturbed, "at load {loads}"));
    }
}
