//! What the broker does, in virtual time; one module per area.

mod auth;
mod controls;
mod filters;
mod limits;
mod load_balancing;
mod malformed;
mod publish;
mod reconnect;
mod retained;
mod subscriptions;
mod world;
