//! The unit that runs, and its origin.

use std::fmt;
use std::str::FromStr;

use fastrand::Rng;

use crate::plan::Program;
use crate::spin::Spin;
use crate::{Args, draw, spin};

/// The origin of a program: a seed, and parts of it that come from other seeds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Genome {
    pub seed: u64,
    /// The part, and its seed.
    swaps: Vec<(u64, u64)>,
}

impl From<u64> for Genome {
    fn from(seed: u64) -> Self {
        Genome { seed, swaps: Vec::new() }
    }
}

impl Genome {
    /// Returns the random numbers of a part.
    pub fn part(&self, part: u64) -> Rng {
        let swap = self.swaps.iter().rev().find(|(at, _)| *at == part);
        let seed = swap.map_or(self.seed, |(_, seed)| *seed);
        Rng::with_seed(seed ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Returns a copy with one part from another seed.
    pub fn mutated(&self, rng: &mut Rng) -> Self {
        let mut other = self.clone();
        let part = rng.u64(..PARTS);
        other.swaps.retain(|(at, _)| *at != part);
        other.swaps.push((part, rng.u64(..1 << 32)));
        other
    }
}

/// The objects, the actors, and the steps of each of three threads.
const PARTS: u64 = 5;

impl fmt::Display for Genome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.seed)?;
        self.swaps.iter().try_for_each(|(part, seed)| write!(f, "/{part}:{seed}"))
    }
}

impl FromStr for Genome {
    type Err = std::num::ParseIntError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.split('/');
        let seed = parts.next().unwrap_or_default().parse()?;
        let swap = |part: &str| {
            let (part, seed) = part.split_once(':').unwrap_or((part, ""));
            Ok((part.parse()?, seed.parse()?))
        };
        Ok(Genome { seed, swaps: parts.map(swap).collect::<Result<_, _>>()? })
    }
}

pub enum Case {
    Program(Program),
    Spin(Spin),
}

impl Case {
    /// Returns the case, as far as the arguments keep its steps.
    pub fn of(args: &Args, genome: &Genome) -> Self {
        let whole = match args.spin {
            true => Case::Spin(spin::Spin::of(genome)),
            false => {
                let program = draw::program(genome, &args.only);
                Case::Program(program.expect("there is such a profile"))
            }
        };
        match (&args.keep, whole) {
            (None, whole) => whole,
            (Some(kept), Case::Spin(spin)) => Case::Spin(spin.with_only(kept)),
            (Some(kept), Case::Program(program)) => {
                Case::Program(program.with_only(&kept.iter().copied().collect()))
            }
        }
    }

    /// Returns its profile.
    pub fn profile(&self) -> &'static str {
        match self {
            Case::Program(program) => program.profile,
            Case::Spin(_) => "spin",
        }
    }

    /// Returns the numbers of the parts that can be removed.
    pub fn steps(self) -> Vec<u32> {
        match self {
            Case::Program(mut program) => program.steps(),
            Case::Spin(spin) => spin.parts(),
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Case::Program(program) => program.fmt(f),
            Case::Spin(spin) => spin.fmt(f),
        }
    }
}
