//! Timers, delayed messages and attempts; one of the three modules that name `turnwise`.
//!
//! The ledger of timers checks: a one-shot timer has fired, was cancelled, or was dropped with its
//! service or its message, and exactly one of these; none fires early; none fires after a
//! successful cancel; and due timers have fired when all is quiet.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use turnwise::time::{Every, Sleep, Timer, Timers};
use turnwise::{Actor, Clock, Context, Handler, MonotonicClock, Reason, VirtualClock};

use crate::face::Handle;
use crate::ledger::{BACK, Kind, NOBODY, RUN, Token, finding, flags, is_current, mark};
use crate::plan::{Body, FUTURES, Letter, Room, Runs, Time, Touch};
use crate::user::{Last, Mail, State, World, called, caught, panics};

const FIRED: u32 = 1;
/// A cancel is under way, whose success is not known yet.
const CANCELLING: u32 = 2;
const CANCELLED: u32 = 4;
/// Its function or message is gone without having run.
const GONE: u32 = 8;
/// A call of a periodic timer may have begun before its cancel.
const LAST_CALL: u32 = 16;

/// The maximum number of periodic messages to an actor.
const MOST_BEATS: u64 = 4;

/// A clock that only goes forward.
#[derive(Clone)]
enum Shows {
    Real,
    Virtual(VirtualClock),
    /// It jumps back and forth: "early" is undefined.
    Nothing,
}

impl Shows {
    fn now(&self) -> Option<Duration> {
        match self {
            Shows::Real => Some(MonotonicClock.now()),
            Shows::Virtual(clock) => Some(clock.now()),
            Shows::Nothing => None,
        }
    }
}

/// The record of a timer.
pub struct Alarm {
    flags: AtomicU32,
    /// The time before which it must not fire, in nanoseconds.
    floor: AtomicU64,
    by: Shows,
    once: bool,
    /// The actor that it sends to.
    to: Option<usize>,
    /// The token of its function or message.
    id: u32,
}

impl Alarm {
    fn new(by: Shows, delay: Duration, once: bool, to: Option<usize>, id: u32) -> Arc<Self> {
        let alarm = Alarm { flags: 0.into(), floor: 0.into(), by, once, to, id };
        alarm.floor.store(alarm.in_future(delay), SeqCst);
        Arc::new(alarm)
    }

    fn in_future(&self, delay: Duration) -> u64 {
        self.by.now().map_or(0, |now| (now + delay).as_nanos() as u64)
    }

    fn said(&self) -> String {
        let (flags, to) = (self.flags.load(SeqCst), self.to);
        format!("once {}, flags {flags}, to actor {to:?}", self.once)
    }

    fn fires(&self) {
        let before = self.flags.fetch_or(FIRED, SeqCst);
        let floor = self.floor.load(SeqCst);
        if !is_current(self.id) {
            return;
        }
        if self.by.now().is_some_and(|now| (now.as_nanos() as u64) < floor) {
            finding("a timer fired early", &self.said());
        }
        if self.once && before & FIRED != 0 {
            finding("a timer fired twice", &self.said());
        }
        if before & CANCELLED != 0
            && (self.once || self.flags.fetch_or(LAST_CALL, SeqCst) & LAST_CALL != 0)
        {
            finding("a cancelled timer fired", &self.said());
        }
    }

    fn is_settled(&self) -> bool {
        !self.once || self.flags.load(SeqCst) & (FIRED | CANCELLED | GONE) != 0
    }
}

/// A timer in a slot that any thread finds.
struct Set {
    timer: Timer,
    alarm: Arc<Alarm>,
}

/// All timers of a program.
pub struct Clockwork {
    /// One that is run by hand, and one with a thread; both on the virtual clock.
    services: [Mutex<Option<Timers>>; 2],
    /// True for each service that may have ended.
    ended: [AtomicBool; 2],
    set: [Mutex<Option<Set>>; FUTURES],
    alarms: Mutex<Vec<Arc<Alarm>>>,
    /// Set when periodic timers end.
    over: AtomicBool,
}

impl Clockwork {
    pub fn new(is_timed: bool, clock: &VirtualClock) -> Self {
        let service = |own: bool| {
            let made = || match own {
                true => Timers::new(clock.clone()).expect("a thread can be had"),
                false => Timers::by_hand(clock.clone()),
            };
            Mutex::new(is_timed.then(made))
        };
        Clockwork {
            services: [service(false), service(true)],
            ended: Default::default(),
            set: Default::default(),
            alarms: Mutex::default(),
            over: AtomicBool::new(false),
        }
    }

    pub fn service(&self, at: usize) -> Option<Timers> {
        self.services[at].lock().unwrap().clone()
    }

    /// Runs what is due in the manual service. Returns true if there was something.
    pub fn run_due(&self) -> bool {
        let timers = self.service(0);
        timers.is_some_and(|timers| caught(|| timers.run_due()) > Some(0))
    }

    fn noted(&self, alarm: &Arc<Alarm>) {
        self.alarms.lock().unwrap().push(alarm.clone());
    }

    fn put(&self, slot: Option<usize>, timer: Timer, alarm: Arc<Alarm>) {
        match slot {
            Some(slot) => drop(self.set[slot].lock().unwrap().replace(Set { timer, alarm })),
            None => timer.forget(),
        }
    }

    /// Returns the first timer that should have fired long ago.
    pub fn unsettled(&self, leaky: impl Fn(usize) -> bool) -> Option<String> {
        let alarms = self.alarms.lock().unwrap();
        let late = |alarm: &&Arc<Alarm>| !alarm.is_settled() && !alarm.to.is_some_and(&leaky);
        alarms.iter().find(late).map(|alarm| alarm.said())
    }

    /// Ends periodic timers with their next call, after which none can be cancelled. Returns true
    /// if one could.
    pub fn let_run_out(&self) -> bool {
        self.over.store(true, SeqCst);
        let set: Vec<_> = self.set.iter().filter_map(|slot| slot.lock().unwrap().take()).collect();
        !set.is_empty()
    }

    /// Returns the number of armed timers.
    pub fn armed(&self) -> usize {
        let services = (0..2).filter_map(|at| self.service(at));
        services.map(|service| service.len()).sum()
    }

    /// Drops the services.
    pub fn end(&self) {
        for (service, ended) in self.services.iter().zip(&self.ended) {
            ended.store(true, SeqCst);
            let service = service.lock().unwrap().take();
            caught(|| drop(service));
        }
    }

    /// True if all slots are empty.
    pub fn has_nothing(&self) -> bool {
        self.set.iter().all(|slot| slot.lock().unwrap().is_none())
    }
}

/// A function of a timer.
struct Function {
    world: Arc<World>,
    alarm: Arc<Alarm>,
    body: Body,
    service: usize,
    _token: Token,
}

impl Function {
    fn call(&self) {
        self.alarm.fires();
        if !self.alarm.once && self.world.clockwork.over.load(SeqCst) {
            // It ends with this panic.
            panics();
        }
        self.world.user("a timer", &self.body);
    }
}

impl Drop for Function {
    fn drop(&mut self) {
        let before = self.alarm.flags.fetch_or(GONE, SeqCst);
        let ended = self.world.clockwork.ended[self.service].load(SeqCst);
        let lives = is_current(self.alarm.id) && !ended;
        if self.alarm.once && before & (FIRED | CANCELLING | CANCELLED) == 0 && lives {
            finding("a timer was lost", &self.alarm.said());
        }
    }
}

/// Arms a function of the program.
pub fn arm(
    world: &Arc<World>,
    service: usize,
    (micros, again): (u32, bool),
    body: &Body,
    slot: Option<usize>,
) {
    let Some(timers) = world.clockwork.service(service) else { return };
    let delay = micros_of(micros);
    let token = world.token(Kind::Timer, NOBODY, None);
    let alarm = Alarm::new(Shows::Virtual(world.clock.clone()), delay, !again, None, token.id);
    let function = Function {
        world: world.clone(),
        alarm: alarm.clone(),
        body: body.clone(),
        service,
        _token: token,
    };
    world.clockwork.noted(&alarm);
    let timer = match again {
        false if micros % 2 == 0 => timers.at(timers.now() + delay, move || function.call()),
        false => timers.after(delay, move || function.call()),
        true => {
            let every = Every::step(delay.max(Duration::from_micros(50)));
            let armed = timers.every(every, move |tick| {
                if world_now(&function) < tick.due {
                    finding("a tick came early", &format!("{tick:?}"));
                }
                function.call();
            });
            armed.expect("the step is not zero")
        }
    };
    world.clockwork.put(slot, timer, alarm);
}

fn world_now(function: &Function) -> Duration {
    function.world.clock.now()
}

fn micros_of(micros: u32) -> Duration {
    Duration::from_micros(micros.into())
}

/// Cancels, moves, inspects or drops the timer in a slot. No other thread has it meanwhile.
pub fn touch(world: &Arc<World>, slot: usize, how: Touch) {
    let clockwork = &world.clockwork;
    let Some(set) = clockwork.set[slot].lock().unwrap().take() else { return };
    let Set { timer, alarm } = &set;
    match how {
        Touch::Cancel => {
            alarm.flags.fetch_or(CANCELLING, SeqCst);
            if !timer.cancel() {
                alarm.flags.fetch_and(!CANCELLING, SeqCst);
            } else if alarm.flags.fetch_or(CANCELLED, SeqCst) & FIRED != 0 && alarm.once {
                finding("a timer fired and was cancelled", &alarm.said());
            }
            return;
        }
        Touch::Reset(micros) => {
            let (delay, before) = (micros_of(micros), alarm.floor.load(SeqCst));
            let floor = alarm.in_future(delay);
            // While it is moved, it may fire by either.
            alarm.floor.store(floor.min(before), SeqCst);
            let moved = caught(|| timer.reset(delay)) == Some(true);
            if moved && alarm.once {
                alarm.floor.store(floor, SeqCst);
            }
            if moved && alarm.flags.load(SeqCst) & CANCELLED != 0 {
                finding("a cancelled timer was moved", &alarm.said());
            }
        }
        Touch::Look => {
            let armed = timer.is_armed();
            let look = |timers: Timers| {
                let _ = (timers.next_due(), timers.is_empty(), timers.undelivered());
                let of = Timers::of(&timers.clock().clone());
                drop((of, format!("{timers:?} {timer:?} {:?}", Timers::global())));
            };
            (0..2).filter_map(|at| clockwork.service(at)).for_each(look);
            if armed && alarm.flags.load(SeqCst) & CANCELLED != 0 {
                finding("a cancelled timer is armed", &alarm.said());
            }
        }
        Touch::Drop => return,
    }
    let before = clockwork.set[slot].lock().unwrap().replace(set);
    drop(before);
}

pub fn sleep(world: &World, service: usize, micros: u32) -> Option<Sleep> {
    Some(world.clockwork.service(service)?.sleep(micros_of(micros)))
}

/// Returns the timers that the actor brings.
pub fn of_actor(world: &World, at: usize) -> Option<Timers> {
    world.clockwork.service(world.program.actors[at].timers?)
}

/// Returns the clock of an actor's delayed messages.
fn shows(world: &World, at: usize) -> Shows {
    let plan = &world.program.actors[at];
    let system = plan.system.is_some() && world.program.virtual_system;
    match plan.clock {
        _ if plan.timers.is_some() => Shows::Virtual(world.clock.clone()),
        Time::Virtual => Shows::Virtual(world.clock.clone()),
        Time::Odd { .. } => Shows::Nothing,
        Time::Real if system => Shows::Virtual(world.clock.clone()),
        Time::Real => Shows::Real,
    }
}

/// Returns the time of the program's virtual clock.
pub fn now(world: &World) -> Duration {
    world.clock.now()
}

/// Returns the time of that clock; zero, if it jumps.
pub fn shown(world: &World, at: usize) -> Duration {
    shows(world, at).now().unwrap_or_default()
}

/// A message that is sent later.
pub struct Delayed {
    mail: Option<Mail>,
    alarm: Arc<Alarm>,
}

impl Delayed {
    fn run(mut self, state: &mut State) {
        let _called = called("a turn");
        self.alarm.fires();
        self.mail.take().into_iter().for_each(|mail| drop(mail.run(state)));
    }
}

impl Drop for Delayed {
    fn drop(&mut self) {
        let before = self.alarm.flags.fetch_or(GONE, SeqCst);
        let Some(mail) = &self.mail else { return };
        // A clock that panics arms nothing.
        let clock = !matches!(self.alarm.by, Shows::Nothing);
        let armed = clock && before & (FIRED | CANCELLING | CANCELLED) == 0;
        let (world, to) = (mail.world(), mail.to());
        let lives = is_current(self.alarm.id) && !world.clockwork.over.load(SeqCst);
        let takes = world.program.actors[to].room == Room::Unbounded && world.is_open(to);
        if armed && lives && takes {
            finding("a delayed message was lost", &self.alarm.said());
        }
    }
}

impl Handler<Delayed> for State {
    type Reply = ();
    fn handle(&mut self, delayed: Delayed, _: &mut Context<'_, Self>) {
        delayed.run(self);
    }
}

/// Sends a message later.
pub fn send_after(
    world: &Arc<World>,
    actor: &Handle,
    micros: u32,
    typed: bool,
    mail: Mail,
    slot: Option<usize>,
) {
    let (to, delay) = (mail.to(), micros_of(micros));
    let alarm = Alarm::new(shows(world, to), delay, true, Some(to), mail.id());
    world.clockwork.noted(&alarm);
    let delayed = Delayed { mail: Some(mail), alarm: alarm.clone() };
    let timer = match typed {
        true => actor.posted().tell_after(delay, delayed),
        false => actor.posted().send_after(delay, move |state| delayed.run(state)),
    };
    world.clockwork.put(slot, timer, alarm);
}

/// A periodic message, whose clone is user code.
pub struct Beat {
    world: Arc<World>,
    to: usize,
    alarm: Arc<Alarm>,
    letter: Arc<Letter>,
    _token: Token,
}

impl Clone for Beat {
    fn clone(&self) -> Self {
        if self.world.clockwork.over.load(SeqCst) {
            panics();
        }
        self.world.user("the clone of a message", &self.letter.answer);
        let Beat { world, to, alarm, letter, .. } = self;
        let token = world.token(Kind::Timer, *to, None);
        let (world, alarm, letter) = (world.clone(), alarm.clone(), letter.clone());
        Beat { world, to: *to, alarm, letter, _token: token }
    }
}

impl Drop for Beat {
    fn drop(&mut self) {
        self.world.user("the drop of a message", &self.letter.dropped);
    }
}

impl Handler<Beat> for State {
    type Reply = ();
    fn handle(&mut self, beat: Beat, _: &mut Context<'_, Self>) {
        beat.run(self);
    }
}

impl Beat {
    fn run(self, state: &mut State) {
        // Any number of them may wait in the mailbox when the timer is cancelled.
        let (_called, beat) = (called("a turn"), self);
        let world = beat.world.clone();
        let _turn = state.message(beat.to);
        world.user("a turn", &beat.letter.turn);
    }
}

pub fn tell_every(
    world: &Arc<World>,
    actor: &Handle,
    to: usize,
    micros: u32,
    letter: &Arc<Letter>,
    slot: Option<usize>,
) {
    let record = &world.entries[to].record;
    record.is_vague.store(true, SeqCst);
    if record.beats.fetch_add(1, SeqCst) >= MOST_BEATS {
        // With more of them an actor would never be idle.
        return;
    }
    let token = world.token(Kind::Timer, to, None);
    let alarm = Alarm::new(Shows::Nothing, Duration::ZERO, false, Some(to), token.id);
    let (beat, theirs) = (world.clone(), alarm.clone());
    let beat = Beat { world: beat, to, alarm: theirs, letter: letter.clone(), _token: token };
    let every = Every::step(micros_of(micros).max(Duration::from_micros(200))).catch_up(3);
    let every = if micros % 2 == 0 { every } else { every.first_after(Duration::from_micros(10)) };
    let timer = match micros % 3 {
        0 => actor.posted().send_every(every, move |state| {
            // The clone is part of the turn, which may end by its panic.
            let _last = Last(to);
            beat.clone().run(state);
        }),
        _ => actor.posted().tell_every(every, beat),
    };
    if let Ok(timer) = timer {
        world.clockwork.put(slot, timer, alarm);
    }
}

/// Tries to run a message here and now.
pub fn try_with(world: &World, actor: &Actor<State>, mail: Mail, in_steps: bool) -> Option<Mail> {
    let (id, to, here) = (mail.id(), mail.to(), thread::current().id());
    let mut ran_on = None;
    let mut mail = Some(mail);
    let tried = actor.try_with(|state| {
        ran_on = Some(thread::current().id());
        mail.take().map(|mail| mail.run(state))
    });
    let refused = match tried {
        Ok(answer) => {
            drop(answer);
            if ran_on != Some(here) || flags(id) & RUN == 0 {
                finding("an attempt ran elsewhere", &crate::ledger::described(id));
            }
            return None;
        }
        Err(refused) => refused.into_reason(),
    };
    if ran_on.is_some() || mark(id, BACK) & RUN != 0 {
        finding("an attempt that was refused ran", &crate::ledger::described(id));
    }
    let plan = &world.program.actors[to];
    let alone = !matches!(plan.runs, Runs::Senders);
    let may_be = match refused {
        Reason::HasExecutor => !matches!(plan.runs, Runs::Senders),
        Reason::Busy => !alone || matches!(plan.runs, Runs::Place(_)),
        Reason::Deadlock(_) => !in_steps,
        Reason::Closed | Reason::Stopped(_) => true,
        _ => false,
    };
    if !may_be {
        finding("an attempt was refused for a strange reason", &format!("{refused:?} by {to}"));
    }
    mail
}
