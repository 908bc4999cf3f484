//! Folders for crawls.

// Each test file uses a part of this.
#![allow(dead_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A folder of one test.
pub(crate) struct Folder(PathBuf);

/// The number of pages of each top folder of [`Folder::book`], and of links of each page.
pub(crate) const PAGES: u64 = 6;
pub(crate) const LINKS: u64 = 7;

impl Folder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("linkcheck-test-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).unwrap();
        Folder(folder)
    }

    /// Makes four top folders whose links all lead somewhere, most of them from folder to folder;
    /// one has the files that the pages show, the others have `PAGES` pages each.
    pub(crate) fn book() -> Self {
        let folder = Folder::new();
        folder.file("static/style.css", "a {}").file("static/a logo.svg", "<svg/>");
        for chapter in 0..3 {
            let next = (chapter + 1) % 3;
            for page in 0..PAGES {
                let name = if page == 0 { "index".into() } else { format!("page-{page}") };
                let other = (page + 1) % PAGES;
                let other = if other == 0 { "".into() } else { format!("page-{other}.html") };
                folder.file(
                    &format!("chapter-{chapter}/{name}.html"),
                    format!(
                        "<!doctype html><link rel=stylesheet href=../static/style.css>\
                         <h1 id='the title'>{page}</h1><img src='../static/a logo.svg'>\
                         <a href='#the%20title'>here</a> <a href='#the%20title'>again</a>\
                         <a href='./{other}#the%20title'>on</a>\
                         <a href='../chapter-{next}/page-1.html?q=1#top'>over</a>\
                         <a href='../chapter-{next}'>begin</a>\
                         <a href='https://example.com/'>elsewhere</a>"
                    ),
                );
            }
        }
        folder
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn file(&self, name: &str, text: impl AsRef<[u8]>) -> &Self {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}
