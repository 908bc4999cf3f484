//! The values of `--executor`, for clap.

use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::executor::Choice;

pub(crate) fn choices() -> impl TypedValueParser<Value = Choice> {
    let names = PossibleValuesParser::new(Choice::ALL.map(Choice::name));
    names.map(|name| name.parse().expect("one of the names"))
}
