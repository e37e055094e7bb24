//! One module per command.

pub(crate) mod api;
pub(crate) mod bench;
pub(crate) mod demo;
pub(crate) mod dev;
pub(crate) mod publish;
pub(crate) mod sub;
pub(crate) mod trace;
