//! What arrives, and what the broker wants.

use super::*;

impl World {
    pub(super) fn arrive(&mut self, link: usize, parcel: Parcel) {
        let client = self.network.get(link).client;
        let step = self.delivered;
        self.delivered += 1;
        if let Some((_, client, cut)) = self.planned_cut.filter(|(planned, ..)| *planned == step) {
            self.history.line(self.now, format_args!("step {step}: client {client} is cut, {cut:?}"));
            let cut_link = self.seats[client.0].link;
            self.cut_current_link(client, cut);
            self.settle(client);
            if cut_link == Some(link) {
                return;
            }
        }
        if self.history.has_words() {
            self.history.line(self.now, format_args!("step {step}: client {client} {}", describe(&parcel)));
        }
        match parcel {
            Parcel::Open => self.open(link),
            Parcel::Opened => self.tell_client(link, TransportEventKind::Opened),
            Parcel::Refused => {
                let error = TransportError::new(TransportErrorKind::Connect, "refused");
                self.tell_client(link, TransportEventKind::Failed(error));
                self.network.end(link);
            }
            Parcel::ToBroker(frame) => {
                if let Some(conn) = self.network.get(link).conn {
                    self.observe(client, &Observation::BrokerReceived(&frame));
                    self.broker.handle_binary(self.now, conn, &frame);
                }
            }
            Parcel::ToClient(frame) => self.tell_client(link, TransportEventKind::Message(frame)),
            Parcel::Part => self.tell_client(link, TransportEventKind::Progress),
            Parcel::ClientClosed | Parcel::Lost(Way::ToBroker) => {
                self.tell_broker_closed(link);
                self.network.end_way(link, Way::ToClient);
            }
            Parcel::BrokerClosed { code, reason } => {
                let reason = reason.into();
                self.tell_client(link, TransportEventKind::Closed { code: Some(code), reason });
                self.network.end(link);
            }
            Parcel::Lost(Way::ToClient) => {
                self.tell_client(link, TransportEventKind::Closed { code: None, reason: String::new() });
            }
        }
        self.settle(client);
    }

    pub(super) fn open(&mut self, link: usize) {
        let seat = &self.seats[self.network.get(link).client.0];
        if self.now < seat.ignored_until {
            return;
        }
        if !self.broker_up || self.now < seat.refused_until {
            return self.network.send(self.now, link, Parcel::Refused);
        }
        let conn = self.broker.open(self.now);
        self.network.connect(link, conn);
        self.network.send(self.now, link, Parcel::Opened);
    }

    /// Tells a client what happened to its transport, as soon as it reads.
    pub(super) fn tell_client(&mut self, link: usize, kind: TransportEventKind) {
        let client = self.network.get(link).client;
        let seat = &mut self.seats[client.0];
        if seat.reads(self.now) && seat.backlog.is_empty() {
            self.hand_over(link, kind);
        } else {
            seat.backlog.push_back((link, kind));
        }
    }

    pub(super) fn hand_over(&mut self, link: usize, kind: TransportEventKind) {
        let (client, id) = (self.network.get(link).client, self.network.get(link).transport);
        // What comes from a link left behind is ignored.
        if self.seats[client.0].link == Some(link) {
            self.observe(client, &Observation::Transport(&kind));
        }
        let seat = &mut self.seats[client.0];
        seat.core.handle_transport(seat.clock(self.now), TransportEvent { id, kind });
    }

    pub(super) fn tell_broker_closed(&mut self, link: usize) {
        if let Some(conn) = self.network.get(link).conn {
            self.broker.handle_close(self.now, conn);
        }
    }

    /// Carries out what the broker wants.
    pub(super) fn carry_out(&mut self) {
        while let Some(output) = self.broker.poll_output() {
            let Some(link) = self.network.of_conn(output.conn()) else { continue };
            let client = self.network.get(link).client;
            match output {
                Output::Send { frame, .. } => {
                    if !self.network.has_ended(link, Way::ToClient) {
                        self.observe(client, &Observation::BrokerSent(&frame));
                    }
                    self.network.send(self.now, link, Parcel::ToClient(frame));
                }
                Output::Close { code, reason, .. } => {
                    self.network.send(self.now, link, Parcel::BrokerClosed { code, reason });
                    self.network.end_way(link, Way::ToClient);
                }
                Output::Cut { .. } => {
                    self.network.send(self.now, link, Parcel::Lost(Way::ToClient));
                    self.network.end_way(link, Way::ToClient);
                }
            }
        }
    }
}

/// A parcel without its contents, which may be secret.
fn describe(parcel: &Parcel) -> String {
    use nolag_core::wire::{ClientFrame, ServerFrame};
    match parcel {
        Parcel::ToBroker(frame) => match ClientFrame::decode(frame) {
            Ok(decoded) => format!("→ {} ({} bytes)", decoded.type_name(), frame.len()),
            Err(error) => format!("→ {error}"),
        },
        Parcel::ToClient(frame) => match ServerFrame::decode(frame) {
            Ok(decoded) => format!("← {} ({} bytes)", decoded.type_name(), frame.len()),
            Err(error) => format!("← {error}"),
        },
        Parcel::Open => "→ open".into(),
        Parcel::Opened => "← opened".into(),
        Parcel::Refused => "← refused".into(),
        Parcel::Part => "← part of a frame".into(),
        Parcel::ClientClosed => "→ closed".into(),
        Parcel::BrokerClosed { code, .. } => format!("← closed {code}"),
        Parcel::Lost(Way::ToBroker) => "→ cut".into(),
        Parcel::Lost(Way::ToClient) => "← cut".into(),
    }
}
