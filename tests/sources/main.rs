//! Checks of texts: sources, documents and lists agree with each other.
//!
//! `BLESS=1 cargo test --all-features --test sources` writes the files that are generated from
//! others.

mod documents;
mod guide;
mod hostile_face;
mod layers;
mod public_api;
mod rules;
