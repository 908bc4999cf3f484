//! Finds dead links in a folder of HTML. The README beside this describes the output and the
//! failures; `crawl` is the module to read first.

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
