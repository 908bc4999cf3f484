//! Chameneos: creatures meet in pairs at a mall, and each pair changes its colours. Savina: 100
//! chameneos, 200,000 meetings.
//!
//! Two of one colour keep it, two of different ones both take the third. As numbers modulo 3: both
//! become -(a + b), so the sum of all colours stays the same, which is checked.

use turnwise::{Actor, Context, Handler, Promise, promise};

use crate::{Benchmark, Outcome, System, answer, same};

pub(crate) struct Chameneos {
    chameneos: usize,
    meetings: u64,
}

struct Mall {
    left: u64,
    waiting: Option<Actor<Chameneo>>,
    chameneos: Vec<Actor<Chameneo>>,
    faded: Total,
    done: Option<Promise<Total>>,
}

struct Chameneo {
    mall: Actor<Mall>,
    colour: u8,
    meetings: u64,
}

#[derive(Debug, Default, PartialEq)]
struct Total {
    chameneos: usize,
    meetings: u64,
    colours: u64,
}

struct Open {
    chameneos: Vec<Actor<Chameneo>>,
    done: Promise<Total>,
}
struct Start;
/// To the mall: the creature that wants to meet. From the mall: the other one.
struct Meet {
    colour: u8,
    who: Actor<Chameneo>,
}
struct Change(u8);
struct Exit;
struct Faded {
    meetings: u64,
    colour: u8,
}

fn complement(one: u8, other: u8) -> u8 {
    (6 - one - other) % 3
}

impl Handler<Open> for Mall {
    type Reply = ();
    fn handle(&mut self, Open { chameneos, done }: Open, _: &mut Context<'_, Self>) {
        for chameneo in &chameneos {
            chameneo.tell(Start).expect("a chameneo is open");
        }
        self.chameneos = chameneos;
        self.done = Some(done);
    }
}

impl Handler<Meet> for Mall {
    type Reply = ();
    fn handle(&mut self, meet: Meet, _: &mut Context<'_, Self>) {
        if self.left == 0 {
            meet.who.tell(Exit).expect("a chameneo is open");
        } else if let Some(waiting) = self.waiting.take() {
            self.left -= 1;
            waiting.tell(meet).expect("a chameneo is open");
        } else {
            self.waiting = Some(meet.who);
        }
    }
}

impl Handler<Faded> for Mall {
    type Reply = ();
    fn handle(&mut self, Faded { meetings, colour }: Faded, _: &mut Context<'_, Self>) {
        self.faded.chameneos += 1;
        self.faded.meetings += meetings;
        self.faded.colours = (self.faded.colours + u64::from(colour)) % 3;
        if self.faded.chameneos == self.chameneos.len() {
            self.chameneos.clear();
            self.done.take().expect("all fade once").keep(std::mem::take(&mut self.faded));
        }
    }
}

impl Chameneo {
    fn go_to_the_mall(&self, who: Actor<Chameneo>) {
        self.mall.tell(Meet { colour: self.colour, who }).expect("the mall is open");
    }

    fn this(cx: &Context<'_, Self>) -> Actor<Chameneo> {
        cx.actor().expect("the mall has a handle until the end")
    }
}

impl Handler<Start> for Chameneo {
    type Reply = ();
    fn handle(&mut self, _: Start, cx: &mut Context<'_, Self>) {
        self.go_to_the_mall(Self::this(cx));
    }
}

impl Handler<Meet> for Chameneo {
    type Reply = ();
    fn handle(&mut self, Meet { colour, who }: Meet, cx: &mut Context<'_, Self>) {
        self.colour = complement(self.colour, colour);
        self.meetings += 1;
        who.tell(Change(self.colour)).expect("a chameneo is open");
        self.go_to_the_mall(Self::this(cx));
    }
}

impl Handler<Change> for Chameneo {
    type Reply = ();
    fn handle(&mut self, Change(colour): Change, cx: &mut Context<'_, Self>) {
        self.colour = colour;
        self.meetings += 1;
        self.go_to_the_mall(Self::this(cx));
    }
}

impl Handler<Exit> for Chameneo {
    type Reply = ();
    fn handle(&mut self, _: Exit, _: &mut Context<'_, Self>) {
        self.mall
            .tell(Faded { meetings: self.meetings, colour: self.colour })
            .expect("the mall is open");
    }
}

impl Benchmark for Chameneos {
    const NAME: &'static str = "chameneos";

    fn sized(quick: bool) -> Self {
        Chameneos { chameneos: 100, meetings: if quick { 200 } else { 800_000 } }
    }

    fn size(&self) -> String {
        format!("{} chameneos, {} meetings", self.chameneos, self.meetings)
    }

    fn run<Y: System>(&self, system: &Y) -> Outcome {
        let mall = system.spawn(Mall {
            left: self.meetings,
            waiting: None,
            chameneos: Vec::new(),
            faded: Total::default(),
            done: None,
        });
        let colours = (0..self.chameneos).map(|i| (i % 3) as u8);
        let chameneos = colours
            .clone()
            .map(|colour| system.spawn(Chameneo { mall: mall.clone(), colour, meetings: 0 }))
            .collect();
        let (done, total) = promise();
        mall.tell(Open { chameneos, done }).expect("the mall is open");
        let colours = colours.map(u64::from).sum::<u64>() % 3;
        same(
            "in all",
            answer(total)?,
            Total { chameneos: self.chameneos, meetings: 2 * self.meetings, colours },
        )?;
        // For each meeting the two arrivals, the notice to one, and the change; for each chameneo
        // the start, and `Meet`, `Exit`, `Faded`.
        Ok(4 * self.meetings + 4 * self.chameneos as u64 + 1)
    }
}
