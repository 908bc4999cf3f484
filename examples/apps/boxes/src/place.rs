//! The folder of the boxes, its lock, and the parts of a box.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};
use turnwise_locks::SlotId;

use crate::Problem;

/// The file that marks the folder as a place, and holds its lock.
const LOCK: &str = ".boxes";

pub(crate) struct Place {
    root: PathBuf,
    logs: Option<PathBuf>,
    /// True if it was made for this run.
    ours: bool,
    _lock: Flock<File>,
}

/// The folder of the boxes.
#[derive(Clone)]
pub(crate) struct Boxes(PathBuf);

fn of<T>(path: &Path, result: io::Result<T>) -> Result<T, Problem> {
    result.map_err(|error| format!("{}: {error}", path.display()))
}

impl Place {
    pub(crate) fn new(root: Option<PathBuf>, logs: Option<PathBuf>) -> Result<Self, Problem> {
        if let Some(logs) = &logs {
            of(logs, fs::create_dir_all(logs))?;
        }
        let logs = logs.map(|logs| of(&logs, logs.canonicalize())).transpose()?;
        let ours = root.is_none();
        let root = root
            .unwrap_or_else(|| std::env::temp_dir().join(format!("boxes-{}", std::process::id())));
        of(&root, fs::create_dir_all(&root))?;
        let root = of(&root, root.canonicalize())?;
        let lock = root.join(LOCK);
        let is_new = of(&root, fs::read_dir(&root))?.next().is_none();
        if !is_new && !lock.exists() {
            let root = root.display();
            return Err(format!("{root}: it has something else in it than boxes"));
        }
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&lock);
        let locked = Flock::lock(of(&lock, file)?, FlockArg::LockExclusiveNonblock);
        let _lock = locked.map_err(|(_, error)| match error {
            nix::errno::Errno::EWOULDBLOCK => format!("{}: another run uses it", root.display()),
            error => format!("{}: {error}", lock.display()),
        })?;
        Ok(Place { root, logs, ours, _lock })
    }

    pub(crate) fn boxes(&self) -> Boxes {
        Boxes(self.root.clone())
    }

    /// Opens the file for the output of a job.
    pub(crate) fn log(&self, line: usize) -> io::Result<Option<File>> {
        let log = self.logs.as_ref().map(|logs| logs.join(format!("job-{line}.log")));
        log.map(File::create).transpose()
    }

    /// Counts the remains of boxes.
    pub(crate) fn dirty(&self) -> io::Result<usize> {
        let mut left = 0;
        for entry in fs::read_dir(&self.root)? {
            left += usize::from(entry?.file_name() != LOCK);
        }
        Ok(left)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.ours && self.dirty().is_ok_and(|left| left == 0) {
            // Only the lock is in it. If a step fails, nothing is lost.
            drop(fs::remove_file(self.root.join(LOCK)));
            drop(fs::remove_dir(&self.root));
        }
    }
}

impl Boxes {
    fn folder(&self, slot: SlotId) -> PathBuf {
        self.0.join(format!("box-{slot}"))
    }

    fn marker(&self, slot: SlotId) -> PathBuf {
        self.0.join(format!("box-{slot}.taken"))
    }

    /// Makes the marker first: no other process may have made it (`O_EXCL`). Then makes the folder.
    pub(crate) fn set_up(&self, slot: SlotId) -> io::Result<PathBuf> {
        OpenOptions::new().write(true).create_new(true).open(self.marker(slot))?;
        let folder = self.folder(slot);
        fs::create_dir(&folder)?;
        Ok(folder)
    }

    /// Removes the marker last: while it exists, the box is not clean.
    pub(crate) fn clean_up(&self, slot: SlotId) -> io::Result<()> {
        let folder = self.folder(slot);
        // Killed processes may take a moment to end, and make a last file in it.
        for _ in 0..100 {
            match fs::remove_dir_all(&folder) {
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                    thread::sleep(Duration::from_millis(10));
                }
                removed => {
                    absent_is_fine(removed)?;
                    break;
                }
            }
        }
        if folder.exists() {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        absent_is_fine(fs::remove_file(self.marker(slot)))
    }
}

fn absent_is_fine(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
