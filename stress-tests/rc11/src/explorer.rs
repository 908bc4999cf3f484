//! The search over all executions of a program that RC11 allows.
//!
//! A program's threads are deterministic: a thread's next operation follows from what it has read.
//! An execution is run step by step; at each step the explorer chooses a thread, the write that its
//! operation reads from, and the operation's place in the modification order, and [`Graph`] and
//! [`psc`] say which choices are consistent. The search goes through all of them depth first, and
//! runs the program again for each.
//!
//! An execution graph has many orders of its steps, and the search follows one: at each step, the
//! first thread goes whose next event has all it depends on, its thread's last event and the write
//! that it reads from.
//! - A thread that is about to write, or at a fence, goes before all later threads;
//! - A thread that was passed over reads from a step that came after that, or the run is redundant:
//!   its graph is found in its own order elsewhere.
//!
//! So each graph is found once. [`Search::all_orders`] drops the rule and compares the graphs
//! themselves; the litmus programs and the small models are searched both ways.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashSet};
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::sync::Once;
use std::sync::atomic::Ordering;

use generator::{Generator, Gn};

use crate::graph::{Action, Answer, Choice, Clock, Graph, MOST_THREADS, Step};
use crate::psc;

/// The thread that sets a program up and looks at its end.
const MAIN: usize = 0;
/// Words of a coroutine's stack.
const STACK: usize = 0x4000;

type Coroutine = Generator<'static, (), ()>;

/// A thread of a program.
pub(crate) type Body = Box<dyn FnOnce()>;

/// The result of a search.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Complete executions; each is another one.
    pub(crate) executions: u64,
    /// Runs that were given up: another order finds their executions.
    pub(crate) redundant: u64,
    /// Events of the largest execution.
    pub(crate) events: usize,
    /// Places that an execution has passed.
    pub(crate) reached: BTreeSet<&'static str>,
    /// The notes of each execution at its end.
    pub(crate) outcomes: BTreeSet<Vec<u64>>,
    /// The search was given up at its limit.
    pub(crate) is_cut: bool,
    /// The first failure, with its execution: the search stops there.
    pub(crate) failure: Option<String>,
}

/// A search.
#[derive(Clone, Copy, Default)]
pub(crate) struct Search {
    /// All orders of the steps, and graphs counted by what they are.
    pub(crate) all_orders: bool,
    /// The search is given up after that many runs; none if 0.
    pub(crate) limit: u64,
}

/// A step of the search: the ways in which it can be taken, and the one that is.
struct Turn {
    options: Vec<(usize, Choice)>,
    chosen: usize,
}

/// The run of one execution.
#[derive(Default)]
struct Run {
    graph: Graph,
    /// The thread that runs.
    current: usize,
    /// The next operation of each thread; `None` if it has ended.
    next: [Option<Step>; MOST_THREADS],
    answer: Option<Answer>,
    jobs: [Option<Body>; MOST_THREADS],
    /// The place where each thread waits to be unparked.
    tokens: Vec<usize>,
    cells: Vec<[Clock; 2]>,
    /// The run is over: what is left of its threads is unwound.
    is_over: bool,
    failure: Option<String>,
    reached: BTreeSet<&'static str>,
    outcome: Vec<u64>,
}

#[derive(Default)]
struct State {
    run: Run,
    turns: Vec<Turn>,
    depth: usize,
    all_orders: bool,
}

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
    /// True if this thread searches.
    static SEARCHES: Cell<bool> = const { Cell::new(false) };
    /// Coroutines, for the threads of one execution after the other.
    static THREADS: RefCell<Vec<Option<Coroutine>>> = const { RefCell::new(Vec::new()) };
}

/// Unwinds a thread of a run that is over.
struct Over;

/// Unwinds a run whose executions are found in another order.
struct Redundant;

/// The next step of a run.
enum Next {
    /// This thread has its answer.
    Step(usize),
    AllHaveEnded,
    /// Threads are left, and each waits for what does not come.
    WaitsForEver,
    /// No step keeps the order of the search.
    Redundant,
}

fn with<R>(f: impl FnOnce(&mut State) -> R) -> R {
    STATE.with_borrow_mut(f)
}

/// Searches all executions of a program, which begins anew each time.
pub(crate) fn explore(search: Search, program: &dyn Fn()) -> Report {
    silence();
    SEARCHES.set(true);
    let report = all_executions(search, program);
    SEARCHES.set(false);
    report
}

fn all_executions(search: Search, program: &dyn Fn()) -> Report {
    let mut report = Report::default();
    let mut shapes = HashSet::new();
    let mut runs = 0;
    with(|state| *state = State { all_orders: search.all_orders, ..State::default() });
    loop {
        with(|state| {
            state.run = Run::default();
            state.depth = 0;
        });
        let ended = catch_unwind(AssertUnwindSafe(program));
        finish();
        let more = with(|state| {
            let run = &mut state.run;
            if let Err(payload) = &ended {
                if payload.is::<Redundant>() {
                    report.redundant += 1;
                } else if run.failure.is_none() {
                    run.failure = Some(message(payload.as_ref()));
                }
            }
            report.events = report.events.max(run.graph.events.len());
            if let Some(failure) = run.failure.take() {
                report.failure = Some(format!("{failure}\n{}", run.graph));
                return false;
            }
            let is_new = !search.all_orders || shapes.insert(run.graph.shape());
            if ended.is_ok() {
                report.reached.append(&mut run.reached);
                report.outcomes.insert(std::mem::take(&mut run.outcome));
                report.executions += u64::from(is_new);
            }
            assert!(state.depth == state.turns.len(), "the program is not deterministic");
            while let Some(turn) = state.turns.last_mut() {
                turn.chosen += 1;
                if turn.chosen < turn.options.len() {
                    return true;
                }
                state.turns.pop();
            }
            false
        });
        runs += 1;
        if more && search.limit > 0 && runs >= search.limit {
            report.is_cut = true;
            return report;
        }
        if !more {
            return report;
        }
    }
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or("a panic".to_owned())
}

/// Failures are reported, not printed as they come.
fn silence() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !SEARCHES.get() {
                print(info);
            }
        }));
    });
}

/// Unwinds the threads that have not ended.
fn finish() {
    let threads = with(|state| {
        state.run.is_over = true;
        (0..MOST_THREADS).filter(|&thread| state.run.next[thread].is_some()).collect::<Vec<_>>()
    });
    for thread in threads {
        resume(thread);
    }
}

/// Runs a thread to its next operation.
fn resume(thread: usize) {
    with(|state| state.run.current = thread);
    // Not borrowed while it runs.
    let coroutine = THREADS.with_borrow_mut(|threads| {
        if threads.len() < thread {
            threads.resize_with(thread, || None);
        }
        threads[thread - 1].take()
    });
    let mut coroutine = coroutine.unwrap_or_else(|| Gn::new_opt(STACK, run_jobs));
    coroutine.resume();
    THREADS.with_borrow_mut(|threads| threads[thread - 1] = Some(coroutine));
    with(|state| state.run.current = MAIN);
}

/// Gives the run back to the explorer.
#[allow(deprecated, reason = "the one that replaces it would have to go through the shipped code")]
fn pause() {
    generator::yield_with(());
}

/// A thread of one execution after the other.
fn run_jobs() {
    loop {
        if let Some(job) = with(|state| state.run.jobs[state.run.current].take()) {
            let ended = catch_unwind(AssertUnwindSafe(job));
            with(|state| {
                let run = &mut state.run;
                run.next[run.current] = None;
                if let Some(payload) = ended.err().filter(|payload| !payload.is::<Over>()) {
                    let text = message(payload.as_ref());
                    let text = format!("thread {}: {text}", run.current);
                    run.failure.get_or_insert(text);
                }
            });
        }
        pause();
    }
}

/// Runs these threads to their ends, in one of the executions.
pub(crate) fn run<const N: usize>(threads: [Body; N]) {
    assert!(N < MOST_THREADS, "too many threads");
    with(|State { run, .. }| {
        run.graph.tick(MAIN);
        for (index, job) in threads.into_iter().enumerate() {
            run.graph.start(MAIN, index + 1);
            run.jobs[index + 1] = Some(job);
        }
    });
    (1..=N).for_each(resume);
    loop {
        match with(|state| state.choose(N)) {
            Next::Step(thread) => resume(thread),
            Next::AllHaveEnded => break,
            Next::WaitsForEver => {
                let waiting = with(|state| state.run.unfinished(N).collect::<Vec<_>>());
                panic!("threads {waiting:?} wait for ever");
            }
            Next::Redundant => resume_unwind(Box::new(Redundant)),
        }
        if with(|state| state.run.failure.is_some()) {
            resume_unwind(Box::new(Over));
        }
    }
    with(|state| (1..=N).for_each(|thread| state.run.graph.join(MAIN, thread)));
}

impl Run {
    /// The threads that have not ended.
    fn unfinished(&self, threads: usize) -> impl Iterator<Item = usize> {
        (1..=threads).filter(|&thread| self.next[thread].is_some())
    }

    /// True if a thread waits for a value that no write has.
    fn waits(&self, thread: usize) -> bool {
        self.next[thread].is_some_and(|step| {
            matches!(step.action, Action::Await(..))
                && self.graph.choices(thread, &step).is_ok_and(|choices| choices.is_empty())
        })
    }
}

impl State {
    /// Chooses and takes the next step.
    fn choose(&mut self, threads: usize) -> Next {
        if self.depth == self.turns.len() {
            let options = self.options(threads);
            if options.is_empty() {
                let run = &self.run;
                return match run.unfinished(threads).next() {
                    None => Next::AllHaveEnded,
                    Some(_) if run.unfinished(threads).all(|thread| run.waits(thread)) => {
                        Next::WaitsForEver
                    }
                    Some(_) => Next::Redundant,
                };
            }
            self.turns.push(Turn { options, chosen: 0 });
        }
        let turn = &self.turns[self.depth];
        self.depth += 1;
        let (thread, choice) = turn.options[turn.chosen];
        let run = &mut self.run;
        let step = run.next[thread].expect("it has a next step");
        run.answer = Some(run.graph.add(thread, &step, choice));
        Next::Step(thread)
    }

    /// All consistent steps that keep the order of the search.
    ///
    /// # Panics
    /// If a thread is about to use an atomic that is not there for it yet.
    fn options(&mut self, threads: usize) -> Vec<(usize, Choice)> {
        let run = &mut self.run;
        let mut options = Vec::new();
        for thread in 1..=threads {
            let Some(step) = run.next[thread] else { continue };
            let choices = run.graph.choices(thread, &step);
            for choice in choices.unwrap_or_else(|error| panic!("thread {thread}: {error}")) {
                let since = run.graph.depends_on(thread, choice);
                let in_order = run.graph.steps[since..].iter().all(|&other| other < thread);
                if !(in_order || self.all_orders) {
                    continue;
                }
                let before = run.graph.threads[thread];
                run.graph.add(thread, &step, choice);
                let is_consistent = psc::is_consistent(&run.graph);
                run.graph.undo(before);
                if is_consistent {
                    options.push((thread, choice));
                }
            }
            if !(step.action.reads() || self.all_orders) {
                break;
            }
        }
        options
    }
}

/// Does an operation: the explorer chooses when and how.
pub(crate) fn perform(action: Action, site: &'static Location<'static>) -> Answer {
    const NOTHING: Answer = Answer { read: 0, written: true };
    let step = Step { action, site };
    let thread = with(|state| if state.run.is_over { None } else { Some(state.run.current) });
    let Some(thread) = thread.filter(|_| !std::thread::panicking()) else { return NOTHING };
    if thread == MAIN {
        return with(|state| alone(&mut state.run, &step))
            .unwrap_or_else(|error| panic!("{error}"));
    }
    with(|state| state.run.next[thread] = Some(step));
    pause();
    let answer = with(|state| if state.run.is_over { None } else { state.run.answer.take() });
    answer.unwrap_or_else(|| resume_unwind(Box::new(Over)))
}

/// An operation of the main thread, beside no other: there is one way.
fn alone(run: &mut Run, step: &Step) -> Result<Answer, String> {
    let choices = run.graph.choices(MAIN, step)?;
    match choices[..] {
        [choice] => Ok(run.graph.add(MAIN, step, choice)),
        [] => Err("the main thread waits for ever".to_owned()),
        _ => Err("the main thread is not alone".to_owned()),
    }
}

/// Makes a location with a value of these bits.
pub(crate) fn make(value: u64, mask: u64, site: &'static Location<'static>) -> usize {
    with(|state| state.run.graph.make(state.run.current, value, mask, site))
}

/// Returns the current thread, and the location of its token.
pub(crate) fn token(site: &'static Location<'static>) -> usize {
    with(|state| {
        let run = &mut state.run;
        // All are made by the first thread, before the others begin.
        while run.current == MAIN && run.tokens.len() < MOST_THREADS {
            run.tokens.push(run.graph.make(MAIN, 0, u64::MAX, site));
        }
        *run.tokens.get(run.current).expect("`sync::thread::prepare` was called before")
    })
}

/// Makes memory that is not atomic.
pub(crate) fn make_cell() -> usize {
    with(|state| {
        let run = &mut state.run;
        let mut written = Clock::default();
        written.0[run.current] = run.graph.threads[run.current].clock.0[run.current] + 1;
        run.cells.push([written, Clock::default()]);
        run.cells.len() - 1
    })
}

/// An access that is not atomic: it has to come before or after all others that conflict with it.
pub(crate) fn access(cell: usize, writes: bool) {
    let raced = with(|state| {
        let run = &mut state.run;
        if run.is_over {
            return None;
        }
        let thread = run.current;
        let clock = run.graph.threads[thread].clock;
        let [written, read] = &mut run.cells[cell];
        let races = |with: &Clock| {
            (0..MOST_THREADS).find(|&other| other != thread && with.0[other] > clock.0[other])
        };
        let raced = races(written).or_else(|| races(read).filter(|_| writes));
        let mine = if writes { written } else { read };
        mine.0[thread] = clock.0[thread] + 1;
        raced.map(|other| format!("a race on plain memory, with thread {other}"))
    });
    if let Some(raced) = raced {
        panic!("{raced}");
    }
}

/// Notes that this execution comes by here.
pub(crate) fn reached(place: &'static str) {
    with(|state| state.run.reached.insert(place));
}

/// Notes what this execution has come to.
pub(crate) fn outcome(values: &[u64]) {
    with(|state| state.run.outcome = values.to_vec());
}

/// Orders the accesses around it.
pub(crate) fn fence(ordering: Ordering, site: &'static Location<'static>) {
    perform(Action::Fence(ordering), site);
}
