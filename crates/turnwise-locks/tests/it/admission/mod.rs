//! Admissions: exactly to the limit, in order, durable before anybody is told, and every applicant
//! answered truly, whatever fails.

mod book;
mod ends;
mod faults;
mod figures;
mod model;
mod times;
