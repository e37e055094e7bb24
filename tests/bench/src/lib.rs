//! What the NoLag client and the development broker take in time and memory, beside the least that it takes.
//!
//! [`run`] does [`Work`]s: each has one or more *cases*, and each case is measured once per round, all cases in turn, so
//! that whatever else the machine does hits all of them. What counts are the [`Ratio`]s between cases of one run;
//! absolute figures depend on the machine.
//!
//! What a client or broker is measured against runs in processes of its own (see [`Launch`]), on one thread each, and is
//! the same for every case.

mod bare;
mod chart;
mod environment;
mod error;
mod figures;
mod frames;
mod meter;
mod ours;
pub mod peer;
mod python;
mod ratios;
mod run;
mod settings;
mod works;

pub use chart::chart;
pub use environment::Environment;
pub use error::{Error, Result};
pub use figures::{Figures, Latency, Measurement};
pub use peer::Launch;
pub use python::{PYTHON_SDK, has_python_sdk, python_with_sdk};
pub use ratios::{Goal, Ratio, ratios};
pub use run::{Event, run};
pub use settings::{Settings, Target, Work};
