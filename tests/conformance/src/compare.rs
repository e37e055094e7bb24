//! Differences between two frames.

use crate::value::{Fields, Id, Values};

/// One sentence for each field that differs.
pub fn differences(values: &Values, expected: &Fields, got: &Fields) -> Vec<String> {
    let mut names: Vec<&String> = expected.keys().chain(got.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let differs = names.into_iter().filter(|name| expected.get(*name) != got.get(*name));
    differs
        .map(|name| {
            let show = |side: &Fields| {
                side.get(name).map_or_else(|| "nothing".to_owned(), |id| show_field(values, name, *id))
            };
            format!("field {name:?}: expected {}, got {}", show(expected), show(got))
        })
        .collect()
}

/// A field's value for people. Tokens are not shown, not even recorded ones.
pub fn show_field(values: &Values, name: &str, id: Id) -> String {
    if name == "token" && values.as_text(id).is_some() { "(a token)".to_owned() } else { values.show(id) }
}
