//! Finds dead links in a folder of HTML. The README beside this says what it prints, and when it
//! fails; `crawl` is where to begin reading.

pub mod address;
pub mod book;
pub mod crawl;
pub mod faults;
pub mod host;
pub mod net;
pub mod page;
pub mod report;
pub mod run;
pub mod site;
