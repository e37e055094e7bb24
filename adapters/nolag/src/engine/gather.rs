//! Error events that can come in great numbers: they are gathered and told about once a second.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use nolag_core::{Instant, ProtocolError};

use crate::event::ErrorEvent;

/// The least time between two reports.
const QUIET: Duration = Duration::from_secs(1);

/// What has happened since the last report.
#[derive(Debug, Default)]
pub(super) struct Gather {
    /// Messages dropped, by topic.
    lagged: BTreeMap<Option<Arc<str>>, u64>,
    /// Frames skipped, and the last one's fault.
    protocol: Option<(ProtocolError, u64)>,
    /// Nothing is reported before.
    quiet_until: Instant,
}

impl Gather {
    pub(super) fn lagged(&mut self, topic: Option<Arc<str>>, count: u64) {
        *self.lagged.entry(topic).or_default() += count;
    }

    pub(super) fn protocol(&mut self, error: ProtocolError) {
        let count = self.protocol.take().map_or(0, |(_, count)| count);
        self.protocol = Some((error, count + 1));
    }

    /// When the next report is due; `None` when there is nothing to report.
    pub(super) fn due(&self) -> Option<Instant> {
        (self.protocol.is_some() || !self.lagged.is_empty()).then_some(self.quiet_until)
    }

    /// The report, if it is due. A first one is due at once.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<ErrorEvent> {
        match self.due() {
            Some(at) if at <= now => self.take(now),
            _ => Vec::new(),
        }
    }

    /// The report, due or not.
    pub(super) fn take(&mut self, now: Instant) -> Vec<ErrorEvent> {
        self.quiet_until = now + QUIET;
        let protocol = self.protocol.take();
        let lagged = std::mem::take(&mut self.lagged);
        let protocol = protocol.map(|(error, count)| ErrorEvent::Protocol { error, count });
        let lagged = lagged.into_iter().map(|(topic, count)| ErrorEvent::Lagged { topic, count });
        protocol.into_iter().chain(lagged).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn lagged(topic: &str, count: u64) -> ErrorEvent {
        ErrorEvent::Lagged { topic: Some(topic.into()), count }
    }

    #[test]
    fn the_first_report_comes_at_once_and_the_next_a_second_later() {
        let mut gather = Gather::default();
        assert_eq!((gather.due(), gather.take_due(at(5))), (None, vec![]));
        gather.lagged(Some("a".into()), 3);
        assert_eq!(gather.take_due(at(10)), [lagged("a", 3)]);
        gather.lagged(Some("b".into()), 1);
        gather.lagged(Some("a".into()), 4);
        gather.lagged(Some("b".into()), 1);
        gather.protocol(ProtocolError::Unanswered);
        gather.protocol(ProtocolError::HeartbeatLost);
        assert_eq!((gather.due(), gather.take_due(at(1009))), (Some(at(1010)), vec![]));
        let protocol = ErrorEvent::Protocol { error: ProtocolError::HeartbeatLost, count: 2 };
        assert_eq!(gather.take_due(at(1010)), [protocol, lagged("a", 4), lagged("b", 2)]);
        assert_eq!((gather.due(), gather.take_due(at(9000))), (None, vec![]));
    }

    #[test]
    fn at_the_end_nothing_is_kept_back() {
        let mut gather = Gather::default();
        gather.lagged(None, 3);
        gather.take_due(at(10));
        gather.lagged(None, 1);
        assert_eq!(gather.take(at(11)), [ErrorEvent::Lagged { topic: None, count: 1 }]);
    }
}
