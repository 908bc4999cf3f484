//! A program: its objects, the steps of each thread, and the steps of user code when it is called.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use crate::case::Genome;

/// The steps of a piece of user code when it is called.
#[derive(Clone, Default)]
pub struct Body(pub Vec<Step>);

#[derive(Clone)]
pub struct Step {
    pub id: u32,
    pub deed: Deed,
}

/// A limit of a wait.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum For {
    Zero,
    Micros(u32),
    /// Without a limit where an order of waiting allows it; otherwise a millisecond.
    Ever,
}

/// The ways to send a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum How {
    Send,
    Tell,
    Post,
    PostTyped,
    Within(For),
    TellWithin(For),
    /// Through a recipient that is created for it.
    Recipient,
}

/// The ways to ask.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Asks {
    Call,
    Ask,
    PostedCall,
    PostedAsk,
    /// These begin a turn that may wait.
    Run,
    /// Its abort handle is kept in this slot.
    RunAbortable(usize),
    AskAsync,
    PostedRun,
    PostedAskAsync,
}

/// Waits for room as a future.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Waits {
    Tell,
    Call,
    Ask,
    Run,
    AskAsync,
}

/// The time of an answer that a handler has promised, and its origin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Later {
    /// In the turn itself.
    AtOnce,
    /// Never: the promise is dropped in the turn.
    Broken,
    Forgotten,
    /// From a thread of its own.
    Thread,
    /// From a turn of this actor, to which the promise is sent.
    By(usize),
    /// From the thread that finds it in this slot; its former content is dropped.
    Slot(usize),
    /// From there, after the answer has begun.
    Claimed(usize),
}

/// Uses of a promise in a slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Settles {
    Keep,
    Drop,
    Forget,
    /// Keeps it, unless it was cancelled.
    Look,
    /// Begins the answer, and leaves it there.
    Claim,
}

/// Uses of a timer in a slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Touch {
    Cancel,
    Reset(u32),
    Look,
    Drop,
}

/// Other ways into an actor, which can be kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    Recipient,
    /// One that asks.
    Asks,
    /// One that does not keep the actor.
    Weak,
}

/// The state of an actor for which a future waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Watches {
    Idle,
    Ended,
}

/// The acts of a typed handler with its context, before all else.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Inside {
    Look,
    Stop,
    StopWeak,
    Close,
    /// Puts its handle into a public slot.
    KeepHandle,
    KeepWeak,
    ForgetHandle,
}

/// Objects that a turn awaits.
#[derive(Clone, Debug)]
pub enum Await {
    /// It wakes itself, this many times.
    Yield(u32),
    /// Another thread wakes it, twice, and drops a third waker.
    Thread,
    /// Its waker is put into this slot; the former content is dropped.
    Keep(usize),
    /// A promise in this slot.
    Gift(usize),
    /// The answer of another actor, whose turn may wait, too. An actor that does not stand behind
    /// its own in the order of waiting is polled once.
    Ask {
        of: usize,
        how: Asks,
        letter: Arc<Letter>,
    },
    /// Room, and an answer.
    Room {
        of: usize,
        what: Waits,
        letter: Arc<Letter>,
    },
    /// Polls that once, and drops it or leaves it in a slot.
    Watch {
        of: usize,
        what: Watches,
        leaves: Option<usize>,
    },
    /// Polls the content of this slot once.
    Future(usize),
    Sleep(u32),
    /// No thread wakes it.
    Nobody,
}

/// The acts of a turn, and what it awaits after that.
#[derive(Clone, Debug)]
pub struct Leg {
    pub before: Body,
    pub what: Await,
}

/// Uses of a turn's waker in a slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rings {
    Wake,
    /// Twice, and it stays.
    ByRef,
    /// Twice, in another thread, and it stays.
    Elsewhere,
    Drop,
    Clone,
    ForgetClone,
}

/// The fate of a reply or a future.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fate {
    Wait(For),
    WaitOrCancel(For),
    Cancel,
    Drop,
    Forget,
    /// Put into a slot that any thread finds; the former content is dropped.
    Keep(usize),
}

#[derive(Clone, Debug)]
pub enum Deed {
    Send {
        to: usize,
        how: How,
        letter: Arc<Letter>,
    },
    SendMany {
        to: usize,
        letters: Vec<Arc<Letter>>,
        iterator: Body,
    },
    Ask {
        to: usize,
        how: Asks,
        letter: Arc<Letter>,
        polled: Option<Arc<Bell>>,
        then: Fate,
    },
    With {
        to: usize,
        body: Body,
    },
    SendAsync {
        to: usize,
        what: Waits,
        letter: Arc<Letter>,
        bell: Arc<Bell>,
        then: Fate,
    },
    /// Asks for an answer that is promised in the answer.
    Order {
        to: usize,
        letter: Arc<Letter>,
        later: Later,
        bell: Arc<Bell>,
        then: Fate,
    },
    /// Promises an answer, makes a turn of that actor keep the promise, and waits for the answer.
    WaitForPromise {
        by: usize,
        letter: Arc<Letter>,
        limit: For,
    },
    /// Settles a promise in a slot.
    Settle {
        slot: usize,
        how: Settles,
    },
    MakeWay {
        to: usize,
        slot: usize,
        way: Way,
    },
    SendBy {
        slot: usize,
        letter: Arc<Letter>,
    },
    /// Empties it, and maybe drops the content.
    EmptyWay {
        slot: usize,
        drops: bool,
    },
    /// A future that is ready when the actor is idle, is closed, or has ended.
    Watch {
        of: usize,
        what: Watches,
        bell: Arc<Bell>,
        then: Fate,
    },
    CloseSystem {
        system: usize,
        bell: Arc<Bell>,
        then: Fate,
    },
    /// Makes all read-only calls.
    Look {
        of: usize,
        system: usize,
    },
    StopWeak {
        of: usize,
    },
    Poll {
        slot: usize,
        bell: Arc<Bell>,
    },
    DropFuture {
        slot: usize,
    },
    /// Cancels a request, or the reply to a promise.
    CancelFuture {
        slot: usize,
    },
    ForgetFuture {
        slot: usize,
    },
    DropHandle {
        of: usize,
    },
    /// Drops all that the program has of an actor: its entry remains, if that is out.
    DropAll {
        of: usize,
    },
    /// Makes an actor of a spawner, unless that was done.
    Spawn {
        of: usize,
    },
    DropSpawner {
        spawner: usize,
    },
    ForgetSpawner {
        spawner: usize,
    },
    ForgetHandle {
        of: usize,
    },
    Upgrade {
        of: usize,
    },
    Close {
        of: usize,
    },
    Stop {
        of: usize,
    },
    WaitIdle {
        of: usize,
    },
    WaitEnded {
        of: usize,
        limit: For,
    },
    ShutDownSystem {
        system: usize,
        limit: For,
    },
    DropSystem {
        system: usize,
    },
    ShutDownPlace {
        place: usize,
        limit: For,
    },
    RunQueue {
        place: usize,
        most: u32,
        limit: Option<For>,
    },
    Advance {
        micros: u32,
    },
    Blocking {
        body: Body,
    },
    /// Another thread does it, and this one waits for that for a while.
    Elsewhere {
        body: Body,
        /// The destructors of that thread's locals do it once more.
        again: bool,
    },
    Pause {
        micros: u32,
    },
    Panic {
        dropped: Body,
    },
    /// Runs its closure here and now, or not at all.
    TryWith {
        to: usize,
        letter: Arc<Letter>,
    },
    /// Sends a delayed message.
    SendAfter {
        to: usize,
        micros: u32,
        typed: bool,
        letter: Arc<Letter>,
        slot: Option<usize>,
    },
    /// Sends a periodic message.
    TellEvery {
        to: usize,
        micros: u32,
        letter: Arc<Letter>,
        slot: Option<usize>,
    },
    /// Arms a function of a service, once or periodically.
    Arm {
        service: usize,
        micros: u32,
        again: bool,
        body: Body,
        slot: Option<usize>,
    },
    Touch {
        slot: usize,
        how: Touch,
    },
    RunDue,
    Ring {
        slot: usize,
        how: Rings,
    },
    /// Keeps or drops a promise for which turns wait.
    Give {
        slot: usize,
        keeps: bool,
    },
    /// Cuts a turn; the handle stays there or is dropped.
    Abort {
        slot: usize,
        stays: bool,
    },
    Sleep {
        service: usize,
        micros: u32,
        bell: Arc<Bell>,
        then: Fate,
    },
    Chain {
        actors: u32,
        by: Link,
        place: ChainPlace,
    },
}

/// The holder of the next actor of a chain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Link {
    State,
    EndHook,
    WeakInPanicHook,
    Message,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ChainPlace {
    None,
    Pool,
    Gone,
    Queue,
}

/// A message: the steps of its turn and of its drop, and the same of its answer.
#[derive(Clone, Default)]
pub struct Letter {
    pub turn: Body,
    pub dropped: Body,
    pub answer: Body,
    /// The actor to which it holds a handle.
    pub carries: Option<usize>,
    /// Too large for a node.
    pub large: bool,
    /// A sender that gets it back sends it once more.
    pub again: bool,
    /// The acts of a typed handler before the rest.
    pub inside: Vec<Inside>,
    /// The acts of a turn that may wait before the rest.
    pub legs: Vec<Leg>,
}

/// A waker.
#[derive(Clone, Default)]
pub struct Bell {
    pub cloned: Body,
    pub woken: Body,
    pub dropped: Body,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PlaceKind {
    Pool { workers: usize, spares: usize },
    Queue { seed: Option<u64> },
    Rayon,
    Tokio { blocking: bool },
}

/// The ways in which an executor of the program handles a drain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Manner {
    AtOnce,
    /// In a turn of an actor that is created for it.
    InTurn,
    /// Sends it to an actor.
    ByActor,
    Later,
    OtherThread,
    Forget,
    Drop,
    Refuse,
    Panic,
}

#[derive(Clone, Debug)]
pub enum Runs {
    Senders,
    Place(usize),
    /// An executor of the program, which does these in turn, and its code before.
    Odd(Vec<Manner>, Body, After),
}

/// Its acts after it has given the drain away, and at each n-th check whether it is closed. (Then
/// it says that it is.)
#[derive(Clone, Debug)]
pub struct After {
    pub body: Body,
    pub every: u32,
    pub asked: Body,
}

/// The budget of a drain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Most {
    Turns(u32),
    Both(u32, u32),
    Unlimited,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Room {
    Unbounded,
    Reject(usize),
    DropNewest(usize),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OnPanic {
    Stop,
    Resume,
    Restart,
    /// This many restarts in this many microseconds, after rests from the first to the longest.
    Within {
        most: u32,
        within: u32,
        first: u32,
        longest: u32,
    },
}

impl OnPanic {
    /// True if the actor rests before it is restarted.
    pub fn rests(self) -> bool {
        matches!(self, OnPanic::Within { first: 1.., longest: 1.., .. })
    }
}

#[derive(Clone, Debug)]
pub enum Time {
    Real,
    Virtual,
    /// Its code is run at each n-th read; it jumps by this many microseconds.
    Odd {
        every: u32,
        jump: u32,
        body: Body,
    },
}

#[derive(Clone, Debug)]
pub struct Actor {
    /// Created from this spawner: these settings are the same for all of its actors, but the system
    /// and the content of the state.
    pub spawner: Option<usize>,
    /// Created by a step.
    pub late: bool,
    /// Created by `new`: it has none of the other settings.
    pub plain: bool,
    pub runs: Runs,
    pub room: Room,
    pub budget: Option<Most>,
    pub on_panic: OnPanic,
    /// The fates of its messages are counted.
    pub counted: bool,
    pub system: Option<usize>,
    pub clock: Time,
    /// The service of its delayed messages, if it brings one: then that has its clock, too.
    pub timers: Option<usize>,
    /// The actor whose handle is in its state; always a later one.
    pub holds: Option<usize>,
    pub hooks: Hooks,
}

/// Its hooks. `None`: it has no such hook.
#[derive(Clone, Default)]
pub struct Hooks {
    pub state_dropped: Body,
    /// The captures of each of them are dropped.
    pub captured: Body,
    pub restart: Body,
    pub end: Option<Body>,
    /// The end hook waits for an actor that was stopped.
    pub waits: bool,
    pub panicked: Option<Body>,
    pub undelivered: Option<Body>,
    /// Undelivered messages are run elsewhere, or sent once more.
    pub rescues: bool,
    pub batch: Option<Body>,
}

#[derive(Clone)]
pub struct Program {
    pub seed: Genome,
    pub profile: &'static str,
    pub places: Vec<PlaceKind>,
    /// The number of systems.
    pub systems: usize,
    /// The first system has the virtual clock.
    pub virtual_system: bool,
    /// It has timers of its own.
    pub timed: bool,
    /// The number of spawners.
    pub spawners: usize,
    pub actors: Vec<Actor>,
    /// The actors that have turns that may wait.
    pub awaits: Vec<bool>,
    pub threads: Vec<Body>,
    /// A thread runs the queues meanwhile; otherwise they are run by steps and at the end.
    pub pumped: bool,
    pub ends: Ends,
}

/// The order in which objects are dropped when all threads have done their steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ends {
    /// The mailboxes become empty first.
    Patiently,
    /// The handles at once, while drains are in queues.
    HandlesFirst,
    /// Pools, queues and runtimes at once.
    PlacesFirst,
}

/// The number of slots for futures.
pub const FUTURES: usize = 3;

/// Visits all parts of a program, for its steps.
trait Steps {
    fn bodies(&mut self, f: &mut dyn FnMut(&mut Body));
}

fn each_of_letter(letter: &mut Arc<Letter>, f: &mut dyn FnMut(&mut Body)) {
    let letter = Arc::make_mut(letter);
    [&mut letter.turn, &mut letter.dropped, &mut letter.answer].into_iter().for_each(&mut *f);
    for Leg { before, what } in &mut letter.legs {
        f(before);
        if let Await::Ask { letter, .. } | Await::Room { letter, .. } = what {
            each_of_letter(letter, f);
        }
    }
}

impl Steps for Deed {
    fn bodies(&mut self, f: &mut dyn FnMut(&mut Body)) {
        let letter = each_of_letter;
        let bell = |bell: &mut Arc<Bell>, f: &mut dyn FnMut(&mut Body)| {
            let bell = Arc::make_mut(bell);
            [&mut bell.cloned, &mut bell.woken, &mut bell.dropped].into_iter().for_each(f);
        };
        match self {
            Deed::Send { letter: one, .. } => letter(one, f),
            Deed::SendMany { letters, iterator, .. } => {
                letters.iter_mut().for_each(|one| letter(one, f));
                f(iterator);
            }
            Deed::Ask { letter: one, polled, .. } => {
                letter(one, f);
                polled.iter_mut().for_each(|one| bell(one, f));
            }
            Deed::SendAsync { letter: one, bell: waker, .. }
            | Deed::Order { letter: one, bell: waker, .. } => {
                letter(one, f);
                bell(waker, f);
            }
            Deed::SendBy { letter: one, .. }
            | Deed::WaitForPromise { letter: one, .. }
            | Deed::TryWith { letter: one, .. }
            | Deed::SendAfter { letter: one, .. }
            | Deed::TellEvery { letter: one, .. } => letter(one, f),
            Deed::Sleep { bell: waker, .. } => bell(waker, f),
            Deed::Arm { body, .. } => f(body),
            Deed::Poll { bell: waker, .. }
            | Deed::Watch { bell: waker, .. }
            | Deed::CloseSystem { bell: waker, .. } => bell(waker, f),
            Deed::With { body, .. }
            | Deed::Blocking { body }
            | Deed::Elsewhere { body, .. }
            | Deed::Panic { dropped: body } => f(body),
            _ => {}
        }
    }
}

impl Steps for Actor {
    fn bodies(&mut self, f: &mut dyn FnMut(&mut Body)) {
        if let Runs::Odd(_, body, after) = &mut self.runs {
            f(body);
            f(&mut after.body);
            f(&mut after.asked);
        }
        if let Time::Odd { body, .. } = &mut self.clock {
            f(body);
        }
        let hooks = &mut self.hooks;
        f(&mut hooks.state_dropped);
        f(&mut hooks.captured);
        f(&mut hooks.restart);
        [&mut hooks.end, &mut hooks.panicked, &mut hooks.undelivered, &mut hooks.batch]
            .into_iter()
            .flatten()
            .for_each(&mut *f);
    }
}

impl Program {
    /// Calls `f` with every body, outermost first.
    fn each_body(&mut self, f: &mut dyn FnMut(&mut Body)) {
        fn within(body: &mut Body, f: &mut dyn FnMut(&mut Body)) {
            f(body);
            body.0.iter_mut().for_each(|step| step.deed.bodies(&mut |inner| within(inner, f)));
        }
        self.threads.iter_mut().for_each(|body| within(body, f));
        self.actors.iter_mut().for_each(|actor| actor.bodies(&mut |body| within(body, f)));
    }

    /// Returns the numbers of its steps. Actors of a spawner have theirs in common.
    pub fn steps(&mut self) -> Vec<u32> {
        let (mut all, mut known) = (Vec::new(), HashSet::new());
        self.each_body(&mut |body| {
            all.extend(body.0.iter().map(|step| step.id).filter(|id| known.insert(*id)));
        });
        all
    }

    /// Returns the actors that are created from a spawner.
    pub fn kin(&self, spawner: usize) -> impl Iterator<Item = usize> + '_ {
        let of = move |(at, actor): (usize, &Actor)| (actor.spawner == Some(spawner)).then_some(at);
        self.actors.iter().enumerate().filter_map(of)
    }

    /// Returns a copy with only these steps.
    pub fn with_only(mut self, kept: &HashSet<u32>) -> Self {
        self.each_body(&mut |body| body.0.retain(|step| kept.contains(&step.id)));
        self
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Program { seed, profile, pumped, ends, .. } = self;
        writeln!(f, "program {seed} ({profile}), queues are pumped: {pumped}, ends: {ends:?}")?;
        writeln!(f, "  systems {}, virtual: {}", self.systems, self.virtual_system)?;
        writeln!(f, "  turns may wait: {:?}", self.awaits)?;
        for (at, place) in self.places.iter().enumerate() {
            writeln!(f, "  place {at}: {place:?}")?;
        }
        for (at, actor) in self.actors.iter().enumerate() {
            writeln!(f, "  actor {at}: {actor:?}")?;
        }
        for (at, body) in self.threads.iter().enumerate().filter(|(_, body)| !body.0.is_empty()) {
            writeln!(f, "  thread {at}:")?;
            body.0.iter().try_for_each(|step| writeln!(f, "    {step:?}"))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{} {:?}", self.id, self.deed)
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.0).finish()
    }
}

/// Prints the parts, without those that do nothing.
fn listed(f: &mut fmt::Formatter<'_>, parts: &[(&str, Option<&Body>)]) -> fmt::Result {
    let parts = parts
        .iter()
        .filter_map(|(name, body)| Some((name, (*body)?)))
        .filter(|(_, body)| !body.0.is_empty());
    f.debug_map()
        .entries(parts.map(|(name, body)| (format_args!("{name}").to_string(), body)))
        .finish()
}

impl fmt::Debug for Letter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(actor) = self.carries {
            write!(f, "carries {actor} ")?;
        }
        f.write_str(if self.large { "large " } else { "" })?;
        f.write_str(if self.again { "again " } else { "" })?;
        if !self.inside.is_empty() {
            write!(f, "inside {:?} ", self.inside)?;
        }
        if !self.legs.is_empty() {
            write!(f, "legs {:?} ", self.legs)?;
        }
        listed(
            f,
            &[
                ("turn", Some(&self.turn)),
                ("dropped", Some(&self.dropped)),
                ("answer dropped", Some(&self.answer)),
            ],
        )
    }
}

impl fmt::Debug for Bell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        listed(
            f,
            &[
                ("cloned", Some(&self.cloned)),
                ("woken", Some(&self.woken)),
                ("dropped", Some(&self.dropped)),
            ],
        )
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named: Vec<_> = [
            ("end", self.end.is_some()),
            ("panic", self.panicked.is_some()),
            ("undelivered", self.undelivered.is_some()),
            ("rescues", self.rescues),
            ("batch", self.batch.is_some()),
        ]
        .into_iter()
        .filter(|(_, there)| *there)
        .map(|(name, _)| name)
        .collect();
        write!(f, "{named:?} ")?;
        listed(
            f,
            &[
                ("state dropped", Some(&self.state_dropped)),
                ("capture dropped", Some(&self.captured)),
                ("restart", Some(&self.restart)),
                ("end", self.end.as_ref()),
                ("panicked", self.panicked.as_ref()),
                ("undelivered", self.undelivered.as_ref()),
                ("batch ends", self.batch.as_ref()),
            ],
        )
    }
}
