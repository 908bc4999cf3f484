//! Admissions: exactly to the limit, in order, durable before any answer, and every applicant
//! answered truly, whatever fails.

mod book;
mod ends;
mod faults;
mod figures;
mod model;
mod times;
