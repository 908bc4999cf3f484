//! Commands from a file; and a sample file of them.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use crate::Problem;

/// The maximum length of a command, which fits into one argument of a process.
const LONGEST: usize = 100_000;
/// The maximum length of a file of commands.
const LARGEST: u64 = 64 << 20;

/// A command.
pub(crate) struct Job {
    /// The number of its line.
    pub(crate) line: usize,
    pub(crate) command: OsString,
}

pub(crate) fn read(path: &Path) -> Result<Vec<Job>, Problem> {
    let name = path.display();
    let file: Box<dyn Read> = if path.as_os_str() == "-" {
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(File::open(path).map_err(|error| format!("{name}: {error}"))?)
    };
    let mut bytes = Vec::new();
    let read = file.take(LARGEST + 1).read_to_end(&mut bytes);
    read.map_err(|error| format!("{name}: {error}"))?;
    if bytes.len() as u64 > LARGEST {
        return Err(format!("{name}: larger than {LARGEST} bytes"));
    }
    let mut jobs = Vec::new();
    for (number, text) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let line = number + 1;
        let text = text.trim_ascii();
        if text.is_empty() || text.starts_with(b"#") {
            continue;
        }
        if text.contains(&0) {
            return Err(format!("{name}: line {line} has a byte in it that no command can have"));
        }
        if text.len() > LONGEST {
            return Err(format!("{name}: line {line} is longer than {LONGEST} bytes"));
        }
        jobs.push(Job { line, command: OsString::from_vec(text.to_vec()) });
    }
    if jobs.is_empty() { Err(format!("{name}: there are no jobs in it")) } else { Ok(jobs) }
}

/// Returns a file of this many commands: one in ten crashes, one in twenty hangs. Each of the
/// others finds its folder empty, works there, and finds only its own work in the end.
pub(crate) fn sample(jobs: usize) -> String {
    let mut text = String::from("# made by `boxes --sample`\n");
    for job in 0..jobs {
        let command = match job % 20 {
            3 => "echo $$ > half; exit 3".to_owned(),
            9 if job % 40 == 9 => "echo hangs > mine; sleep 1000 & sleep 1000".to_owned(),
            9 => "trap '' TERM INT; mkdir deep; while :; do sleep 1; done".to_owned(),
            13 => "echo crashes > mine; kill -SEGV $$".to_owned(),
            n => format!(
                "test -z \"$(ls -A)\" || exit 99; seq {job} 2000 > mine-{job}; \
                 sleep 0.0{}; sort -rn mine-{job} | head -n 1 > top; \
                 test \"$(cat top)\" = 2000 && test \"$(ls | wc -l)\" = 2",
                n % 10
            ),
        };
        text += &command;
        text.push('\n');
    }
    text
}
