//! What the broker does, in virtual time; one module per area.

mod auth;
mod client_tokens;
mod control_access;
mod control_publish;
mod control_resources;
mod control_state;
mod controls;
mod durable_delivery;
mod faults;
mod filters;
mod hydration;
mod in_flight;
mod limits;
mod load_balancing;
mod lobbies;
mod malformed;
mod presence;
mod publish;
mod reconnect;
mod retained;
mod subscriptions;
mod world;
