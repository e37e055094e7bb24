//! What clients want, and what their applications do.

use super::*;

impl World {
    /// Carries out what a client wants and lets its application react, until nothing is left to do now.
    pub(super) fn settle(&mut self, client: ClientId) {
        if self.seats[client.0].is_frozen(self.now) {
            return self.seats[client.0].schedule(self.now);
        }
        while self.violation.is_none() {
            self.poll_outputs(client);
            if !self.run_application(client) {
                break;
            }
        }
        self.observe(client, &Observation::Settled);
        self.seats[client.0].schedule(self.now);
    }

    pub(super) fn poll_outputs(&mut self, client: ClientId) {
        let mut order = [Poll::Transmit, Poll::Action, Poll::Event, Poll::Message];
        loop {
            if let Some(rng) = &mut self.polls {
                rng.shuffle(&mut order);
                let (spurious, other) = (rng.u8(0..4) == 0, rng.usize(0..self.seats.len()));
                if spurious {
                    for seat in [client.0, other] {
                        let seat = &mut self.seats[seat];
                        if !seat.is_frozen(self.now) && seat.core.poll_timeout() > Some(seat.clock(self.now))
                        {
                            seat.core.handle_timeout(seat.clock(self.now));
                        }
                    }
                }
            }
            // All of a kind before the next, and again until none has anything.
            let polled = order.map(|kind| {
                let mut any = false;
                while self.poll(client, kind) {
                    any = true;
                }
                any
            });
            if !polled.contains(&true) {
                return;
            }
        }
    }

    fn poll(&mut self, client: ClientId, kind: Poll) -> bool {
        let now = self.now;
        let seat = &mut self.seats[client.0];
        let clock = seat.clock(now);
        match kind {
            Poll::Transmit => {
                let mut out = BytesMut::new();
                let Some(transmit) = seat.core.poll_transmit(clock, &mut out) else { return false };
                let frame = out.freeze();
                self.history.digest(client, 0, now, &frame);
                self.observe(client, &Observation::Transmitted(&frame));
                if let Some(link) = self.link_of(client, transmit.transport) {
                    self.network.send(now, link, Parcel::ToBroker(frame));
                }
            }
            Poll::Action => {
                let Some(action) = seat.core.poll_action() else { return false };
                self.digest_words(client, 1, &action);
                self.observe(client, &Observation::Acted(&action));
                self.act(client, &action);
            }
            Poll::Event => {
                if seat.is_stopped(now) {
                    return false;
                }
                let Some(event) = seat.core.poll_event() else { return false };
                self.digest_words(client, 2, &event);
                self.history.line(now, format_args!("client {client} {event:?}"));
                if let Event::Done { op, outcome } = &event {
                    let settled = self.seats[client.0].ledger.settle(*op, outcome);
                    self.check_ledger(client, settled);
                }
                self.observe(client, &Observation::Told(&event));
                self.seats[client.0].told.push_back(Told::Event(event));
            }
            Poll::Message => {
                if !seat.may_take(now) {
                    return false;
                }
                let Some(message) = seat.core.poll_message() else { return false };
                seat.took(now);
                self.history.digest(client, 3, now, message.payload().as_msgpack());
                self.observe(client, &Observation::Received(&message));
                self.seats[client.0].told.push_back(Told::Message(message));
            }
        }
        true
    }

    pub(super) fn digest_words(&mut self, client: ClientId, kind: usize, what: &dyn std::fmt::Debug) {
        self.words.clear();
        let _ = write!(self.words, "{what:?}");
        self.history.digest(client, kind, self.now, self.words.as_bytes());
    }

    pub(super) fn link_of(&self, client: ClientId, transport: TransportId) -> Option<usize> {
        self.seats[client.0].link.filter(|link| self.network.get(*link).transport == transport)
    }

    pub(super) fn act(&mut self, client: ClientId, action: &Action) {
        match action {
            Action::OpenTransport { id } => {
                let seat = &mut self.seats[client.0];
                seat.links += 1;
                let link = self.network.link(client, seat.links, *id);
                self.seats[client.0].link = Some(link);
                self.network.send(self.now, link, Parcel::Open);
            }
            Action::CloseTransport { id, .. } => {
                if let Some(link) = self.link_of(client, *id) {
                    self.network.send(self.now, link, Parcel::ClientClosed);
                    self.network.end_way(link, Way::ToBroker);
                    self.seats[client.0].link = None;
                }
            }
            Action::NeedToken => self.seats[client.0].told.push_back(Told::TokenNeeded),
            _ => {}
        }
    }

    /// Lets the application have what its client told it; `true` if it was asked for anything.
    pub(super) fn run_application(&mut self, client: ClientId) -> bool {
        let now = self.now;
        let seat = &mut self.seats[client.0];
        if seat.is_stopped(now) {
            return false;
        }
        let due = seat.application.as_ref().and_then(|app| app.next_wake()).is_some_and(|at| at <= now);
        let mut told: VecDeque<Told> = std::mem::take(&mut seat.told);
        told.make_contiguous().sort_by_key(Told::rank);
        if told.is_empty() && !due {
            return false;
        }
        let Some(mut application) = seat.application.take() else {
            seat.collect(now, told);
            return true;
        };
        for told in told {
            let mut ack = None;
            self.command(client, |client| match told {
                Told::Event(event) => application.on_event(client, &event),
                Told::Message(message) => {
                    ack = message.ack_id().map(String::from);
                    application.on_message(client, message);
                }
                Told::TokenNeeded => application.on_token_needed(client),
            });
            if let Some(msg_id) = ack {
                let seat = &mut self.seats[client.0];
                let clock = seat.clock(now);
                seat.core.ack(clock, &msg_id);
            }
        }
        if due {
            self.command(client, |client| application.on_wake(client));
        }
        self.seats[client.0].application = Some(application);
        true
    }
}

/// The outputs of a client.
#[derive(Clone, Copy)]
enum Poll {
    Transmit,
    Action,
    Event,
    Message,
}
