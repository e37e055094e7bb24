//! Authentication, and what depends on it: limits per organization, restored subscriptions, revalidation.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use nolag_core::{
    Token,
    wire::{AuthReply, FrameMap, Key, PROTOCOL_VERSION, RawValue, RestoredSubscription, ServerFrame, write},
};

use super::{
    BrokerCore, ConnectionId, as_value,
    connection::Identity,
    resume::{ResumeKey, clean_client_id},
    subscriptions::{Group, Request},
};
use crate::auth::{Actor, Refused, Validated};

/// A heartbeat this long after the last validation has the token validated again.
const REVALIDATE_AFTER: Duration = Duration::from_secs(600);

impl BrokerCore {
    /// Acts on `auth`. A second one replaces the identity; a refused one changes nothing and leaves the socket open.
    pub(super) fn authenticate(&mut self, conn: ConnectionId, map: &FrameMap<'_>, token: RawValue<'_>) {
        let (token, Validated { actor, expires_at }) = match self.validate(token) {
            Ok(validated) => validated,
            Err(error) => return self.refuse_auth(conn, error),
        };
        if actor.max_connections.is_some_and(|max| self.others_in_organization(conn, &actor) >= max as usize)
        {
            return self.refuse_auth(conn, "connection_limit_reached");
        }
        let wanted = map.uint(Key::ProtocolVersion).unwrap_or(1).clamp(1, PROTOCOL_VERSION.into());
        let protocol = u32::try_from(wanted).unwrap_or(PROTOCOL_VERSION);
        let reconnect = map.bool(Key::Reconnect) == Some(true);
        let resume_key = self
            .rules
            .remembers_subscriptions
            .then(|| (actor.actor_id.clone(), map.str(Key::ClientId).and_then(clean_client_id)));
        let identity = Identity {
            actor: actor.clone(),
            token,
            protocol,
            validated: self.now,
            expires_at,
            resume_key: resume_key.clone(),
            knows: self.control.revision(),
        };
        self.control.note_connected(&actor.actor_id, self.time());
        let Some(connection) = self.connections.get_mut(&conn) else { return };
        let previous = connection.identity.replace(identity).and_then(|identity| identity.resume_key);
        if let Some(key) = &resume_key {
            self.resume.hold(key, reconnect, self.now);
        }
        if let Some(key) = previous {
            self.resume.release(&key, self.now);
        }

        let wanted = reconnect.then(|| self.subscriptions_to_restore(&actor, resume_key.as_ref())).flatten();
        let (restored, topics) = match wanted {
            Some(list) => self.restore(conn, &list),
            None => (Bytes::from_static(RawValue::EMPTY_LIST.as_bytes()), Vec::new()),
        };
        let reply = ServerFrame::Auth(AuthReply {
            success: true,
            error: None,
            actor_token_id: Some(&actor.actor_id),
            project_id: actor.project_id.as_deref(),
            actor_type: Some(&actor.actor_type),
            protocol_version: Some(protocol),
            restored_subscriptions: Some(as_value(&restored)),
        });
        self.send_frame(conn, &reply);
        for topic in topics {
            self.deliver_retained(conn, &topic, None);
            self.hydrate(conn, &topic);
        }
    }

    /// Acts on `reauth`: a fresh token for the same actor, on newer brokers.
    pub(super) fn reauthenticate(&mut self, conn: ConnectionId, map: &FrameMap<'_>) {
        let Some(token) = map.get(Key::Token) else { return };
        let validated = self.validate(token);
        let knows = self.control.revision();
        let Some(identity) =
            self.connections.get_mut(&conn).and_then(|connection| connection.identity.as_mut())
        else {
            return;
        };
        let outcome = match validated {
            Err(error) => Err(error),
            Ok((_, found)) if found.actor.actor_id != identity.actor.actor_id => Err("actor_mismatch"),
            Ok((token, Validated { actor, expires_at })) => {
                *identity = Identity {
                    actor,
                    token,
                    protocol: identity.protocol,
                    validated: self.now,
                    expires_at,
                    resume_key: identity.resume_key.take(),
                    knows,
                };
                Ok(expires_at)
            }
        };
        let reply = ServerFrame::Reauth {
            success: outcome.is_ok(),
            error: outcome.err(),
            auth_expires_at: outcome.ok().flatten(),
        };
        self.send_frame(conn, &reply);
    }

    /// Answers an empty message unless the connection is not authenticated, then revalidates the token when it is time.
    /// A client token that has expired ends the connection instead.
    pub(super) fn heartbeat(&mut self, conn: ConnectionId) {
        let identity = self.connections.get(&conn).and_then(|connection| connection.identity.as_ref());
        let Some(identity) = identity else { return };
        if identity.expires_at.is_some_and(|expires_at| expires_at <= self.unix_now()) {
            self.send_frame(conn, &ServerFrame::Disconnect { reason: Some("token_expired") });
            return self.end(conn, 4003, "token_expired");
        }
        self.send(conn, Bytes::new());
        let identity = self.connections.get(&conn).and_then(|connection| connection.identity.as_ref());
        let due =
            identity.filter(|identity| self.now.saturating_since(identity.validated) >= REVALIDATE_AFTER);
        let Some(identity) = due else { return };
        let token = identity.token.expose();
        let Ok(found) = self.check_token(token) else {
            return self.end(conn, 4001, "token_revoked");
        };
        let actor = found.actor;
        let connections = self.others_in_organization(conn, &actor) + 1;
        let full =
            |max| connections > max || (self.rules.revalidation_refuses_at_limit && connections == max);
        if actor.max_connections.is_some_and(|max| full(max as usize)) {
            return self.end(conn, 4002, "connection_limit_reached");
        }
        let knows = self.control.revision();
        if let Some(identity) =
            self.connections.get_mut(&conn).and_then(|connection| connection.identity.as_mut())
        {
            identity.actor = actor;
            identity.knows = knows;
            identity.validated = self.now;
        }
    }

    fn refuse_auth(&mut self, conn: ConnectionId, error: &str) {
        let reply = AuthReply { error: Some(error), ..AuthReply::default() };
        self.send_frame(conn, &ServerFrame::Auth(reply));
    }

    fn validate(&self, token: RawValue<'_>) -> Result<(Token, Validated), &'static str> {
        let token = token.as_str().ok_or("access_denied")?;
        match self.check_token(token) {
            Ok(validated) => Ok((Token::new(token), validated)),
            Err(Refused::Denied) => Err("access_denied"),
            Err(Refused::Expired) => Err("token_expired"),
        }
    }

    fn others_in_organization(&self, conn: ConnectionId, actor: &Actor) -> usize {
        let others = self.connections.iter().filter(|(id, _)| **id != conn);
        let identities = others.filter_map(|(_, connection)| connection.identity.as_ref());
        identities.filter(|identity| identity.actor.organization_id == actor.organization_id).count()
    }

    /// The presets of the auth file, else what the client instance had.
    fn subscriptions_to_restore(&self, actor: &Actor, resume_key: Option<&ResumeKey>) -> Option<Bytes> {
        actor.active_subscriptions.clone().or_else(|| resume_key.map(|key| self.resume.list(key)))
    }

    /// Subscribes to everything in a list, in whatever shape an entry has. Returns the list for the client, and the
    /// topics subscribed.
    fn restore(&mut self, conn: ConnectionId, list: &Bytes) -> (Bytes, Vec<String>) {
        let mut kept = Vec::new();
        let mut topics = Vec::new();
        for entry in as_value(list).items().into_iter().flatten() {
            // A list of this one entry, because entries are only read in lists.
            let single = [&[0x91], entry.as_bytes()].concat();
            let parsed =
                RawValue::parse(&single).ok().and_then(|list| RestoredSubscription::parse_list(list).next());
            let topic =
                parsed.filter(|restored| self.restore_one(conn, restored)).map(|restored| restored.topic);
            if topic.is_some() || self.rules.lists_refused_restores {
                kept.push(entry);
            }
            topics.extend(topic.map(String::from));
        }
        let mut out = BytesMut::new();
        write::list_header(&mut out, kept.len());
        kept.iter().for_each(|entry| write::value(&mut out, *entry));
        (out.freeze(), topics)
    }

    fn restore_one(&mut self, conn: ConnectionId, restored: &RestoredSubscription<'_>) -> bool {
        let group = restored.load_balance.then_some(match restored.load_balance_group {
            Some(name) => Group::Named(name),
            None => Group::OfActor,
        });
        let request = Request { topic: restored.topic, group };
        let established = self.establish(conn, &request, &restored.filters);
        if established.is_err() {
            self.forget_resumed(conn, restored.topic);
        }
        established.is_ok()
    }
}
