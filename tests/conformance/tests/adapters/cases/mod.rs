//! The cases, by theme.

mod acks;
mod bad_input;
mod control_plane;
mod filters;
mod groups;
mod handlers;
mod inside_handlers;
mod leaving;
mod lobbies;
mod messages;
mod outages;
mod presence;
mod proxies;
mod publishing;
mod rough;
mod secure;
mod session;
mod silence;
mod slow_consumer;
mod stampede;
mod tokens;
mod transport;
mod waiting;

use nolag_broker::Profile;

use crate::world::World;

/// Something that holds on every adapter.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    module: &'static str,
    function: &'static str,
    pub(crate) profiles: Profiles,
    /// Whether it takes seconds.
    pub(crate) slow: bool,
    pub(crate) run: fn(&World),
}

/// Under which profiles of the broker a case runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profiles {
    /// All: what the broker says or does differs between them.
    Every,
    /// One: it is about the client and its connection.
    One,
}

impl Case {
    /// `theme::function`.
    pub(crate) fn name(&self) -> String {
        let theme = self.module.rsplit("::").next().unwrap_or_default();
        format!("{theme}::{}", self.function)
    }
}

impl Profiles {
    pub(crate) fn list(self) -> &'static [Profile] {
        match self {
            Self::Every => &Profile::ALL,
            Self::One => &[Profile::Kraken010],
        }
    }
}

/// All cases, in the order of the table.
pub(crate) fn all() -> impl Iterator<Item = Case> {
    let themes = [
        session::CASES,
        messages::CASES,
        publishing::CASES,
        rough::CASES,
        filters::CASES,
        acks::CASES,
        groups::CASES,
        presence::CASES,
        lobbies::CASES,
        tokens::CASES,
        handlers::CASES,
        inside_handlers::CASES,
        leaving::CASES,
        outages::CASES,
        stampede::CASES,
        silence::CASES,
        slow_consumer::CASES,
        waiting::CASES,
        transport::CASES,
        secure::CASES,
        proxies::CASES,
        bad_input::CASES,
        control_plane::CASES,
    ];
    themes.into_iter().flatten().copied()
}

/// A case of this module: its profiles, and its function.
macro_rules! case {
    ($profiles:ident, $function:ident) => {
        $crate::cases::case!($profiles, $function, slow: false)
    };
    ($profiles:ident, $function:ident, slow) => {
        $crate::cases::case!($profiles, $function, slow: true)
    };
    ($profiles:ident, $function:ident, slow: $slow:literal) => {
        $crate::cases::Case {
            module: module_path!(),
            function: stringify!($function),
            profiles: $crate::cases::Profiles::$profiles,
            slow: $slow,
            run: $function,
        }
    };
}
use case;
