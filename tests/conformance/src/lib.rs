//! Checks recorded NoLag sessions against `nolag-core`, its codec and its client, and against our development broker.
//!
//! A directory of recordings is described in `traces/README.md`; the recordings there belong to this crate, any other
//! directory of that format can be given on the command line:
//!
//! ```text
//! cargo run -p nolag-conformance -- traces tests/conformance/traces --mode all
//! ```
//!
//! * `decode`: every broker message is read into its typed frame, written again and compared, as are the typed views
//!   of the values that it carries.
//! * `encode`: every well-formed client message is read as an intent, written again and compared. Messages that a
//!   correct client would not send are listed as `not ours` with the reason.
//! * `client`: our client is told what the recorded clients wanted and what the recorded broker said; it must send the
//!   same and report all of it.
//! * `broker`: our broker is fed what the recorded clients did, and must answer what the recorded broker answered.
//!
//! The comparison reads both sides with [`value`], which shares no code with the codec. What may differ is listed in
//! [`leniency`], [`client::Different`] and [`broker::Allowed`], and nowhere else.

pub mod broker;
pub mod client;
pub mod client_fields;
pub mod compare;
mod decode;
mod encode;
pub mod fuzz;
pub mod leniency;
pub mod mode;
pub mod report;
pub mod trace;
pub mod value;
mod views;
