//! Changing the filters of a subscription that stands.

use std::sync::Arc;

use nolag_core::{Misuse, Outcome, wire::Filter};

use crate::{
    client::Client,
    context::Room,
    engine::Handle,
    request::{Ask, Request},
    topic::Topic,
};

/// Filters of subscriptions.
///
/// Texts are filters; [`Filter::All`] is a group of which all must match. Changes of one topic are made in the order of
/// the calls, each confirmed before the next; while the client reconnects they wait. The answer is the list in force
/// then. A refused change changes nothing, and one that is not answered is undone. There is one subscription per topic,
/// so a change concerns all that listen.
impl Client {
    /// Replaces the filters of the subscription to a topic. An empty list does as [`clear_filters`](Self::clear_filters).
    ///
    /// # Errors
    /// [`Misuse::NotSubscribed`], or [`Misuse::InvalidFilter`] and [`Misuse::TooManyFilters`] for a bad list; otherwise as
    /// [`Request`].
    pub fn set_filters(
        &self,
        topic: impl Into<String>,
        filters: impl IntoIterator<Item: Into<Filter>>,
    ) -> Request<Vec<Filter>> {
        change(&self.handle, Ok(topic.into()), filters, Ask::SetFilters)
    }

    /// Adds filters to those of the subscription to a topic; those that it has already stay where they are.
    ///
    /// # Errors
    /// As [`set_filters`](Self::set_filters), and [`Misuse::Unfiltered`] when the subscription has none: it receives
    /// everything, and adding one would silently narrow it.
    pub fn add_filters(
        &self,
        topic: impl Into<String>,
        filters: impl IntoIterator<Item: Into<Filter>>,
    ) -> Request<Vec<Filter>> {
        change(&self.handle, Ok(topic.into()), filters, Ask::AddFilters)
    }

    /// Removes filters from those of the subscription to a topic; those that it does not have are ignored.
    ///
    /// # Errors
    /// As [`set_filters`](Self::set_filters), and [`Misuse::LastFilter`] when none would be left: the subscription would
    /// silently receive everything.
    pub fn remove_filters(
        &self,
        topic: impl Into<String>,
        filters: impl IntoIterator<Item: Into<Filter>>,
    ) -> Request<Vec<Filter>> {
        change(&self.handle, Ok(topic.into()), filters, Ask::RemoveFilters)
    }

    /// Opens the subscription to a topic: from now on it receives everything, whatever its filter.
    ///
    /// # Errors
    /// [`Misuse::NotSubscribed`]; otherwise as [`Request`].
    pub fn clear_filters(&self, topic: impl Into<String>) -> Request<Vec<Filter>> {
        self.set_filters(topic, None::<Filter>)
    }
}

/// Filters of subscriptions, see those of [`Client`](Client::set_filters).
impl Room {
    /// Replaces the filters of the subscription to a topic, see [`Client::set_filters`].
    pub fn set_filters(
        &self,
        topic: impl AsRef<str>,
        filters: impl IntoIterator<Item: Into<Filter>>,
    ) -> Request<Vec<Filter>> {
        change(&self.client().handle, self.pattern(topic.as_ref()), filters, Ask::SetFilters)
    }

    /// Adds filters to those of the subscription to a topic, see [`Client::add_filters`].
    pub fn add_filters(
        &self,
        topic: impl AsRef<str>,
        filters: impl IntoIterator<Item: Into<Filter>>,
    ) -> Request<Vec<Filter>> {
        change(&self.client().handle, self.pattern(topic.as_ref()), filters, Ask::AddFilters)
    }

    /// Removes filters from those of the subscription to a topic, see [`Client::remove_filters`].
    pub fn remove_filters(
        &self,
        topic: impl AsRef<str>,
        filters: impl IntoIterator<Item: Into<Filter>>,
    ) -> Request<Vec<Filter>> {
        change(&self.client().handle, self.pattern(topic.as_ref()), filters, Ask::RemoveFilters)
    }

    /// Opens the subscription to a topic, see [`Client::clear_filters`].
    pub fn clear_filters(&self, topic: impl AsRef<str>) -> Request<Vec<Filter>> {
        self.set_filters(topic, None::<Filter>)
    }
}

/// Filters of the subscription, see those of [`Client`](Client::set_filters).
impl<T> Topic<T> {
    /// Replaces the filters, see [`Client::set_filters`].
    pub fn set_filters(&self, filters: impl IntoIterator<Item: Into<Filter>>) -> Request<Vec<Filter>> {
        self.room().set_filters(self.name(), filters)
    }

    /// Adds filters, see [`Client::add_filters`].
    pub fn add_filters(&self, filters: impl IntoIterator<Item: Into<Filter>>) -> Request<Vec<Filter>> {
        self.room().add_filters(self.name(), filters)
    }

    /// Removes filters, see [`Client::remove_filters`].
    pub fn remove_filters(&self, filters: impl IntoIterator<Item: Into<Filter>>) -> Request<Vec<Filter>> {
        self.room().remove_filters(self.name(), filters)
    }

    /// Opens the subscription, see [`Client::clear_filters`].
    pub fn clear_filters(&self) -> Request<Vec<Filter>> {
        self.room().clear_filters(self.name())
    }
}

fn change(
    handle: &Arc<Handle>,
    topic: Result<String, Misuse>,
    filters: impl IntoIterator<Item: Into<Filter>>,
    ask: fn(String, Vec<Filter>) -> Ask,
) -> Request<Vec<Filter>> {
    let filters = filters.into_iter().map(Into::into).collect();
    Request::new(handle.clone(), topic.map(|topic| ask(topic, filters)), |outcome| match outcome {
        Outcome::FiltersUpdated { filters } => Some(filters),
        _ => None,
    })
}
