//! Lists: what to ask for, and the pages that come.

use alloc::{
    string::{String, ToString},
    vec::{self, Vec},
};

use serde::Serialize;
use serde_json::Value;

use super::{ResourceStatus, json::number};

/// What to list, and how much of it at a time. What is not set is the server's default: the first page, of 10.
///
/// Not every list takes every parameter; servers ignore or refuse what they do not know. Lists of rooms, of actors, of
/// grants and of a scope's actors are documented without any, and then answer whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListParams {
    query: Vec<(String, String)>,
}

/// A direction to sort in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SortOrder {
    /// From small to large.
    Asc,
    /// From large to small.
    Desc,
}

impl ListParams {
    /// Everything as the server has it by default.
    pub fn new() -> Self {
        Self::default()
    }

    /// Which page, from 1.
    #[must_use]
    pub fn page(self, page: u64) -> Self {
        self.set("page", page.to_string())
    }

    /// Entries of a page; control planes take 1 to 100.
    #[must_use]
    pub fn limit(self, limit: u64) -> Self {
        self.set("limit", limit.to_string())
    }

    /// Sorts by a field of the entries, by its name in JSON; again for a second field where those are equal.
    #[must_use]
    pub fn order_by(mut self, field: &str, order: SortOrder) -> Self {
        let order = match order {
            SortOrder::Asc => "ASC",
            SortOrder::Desc => "DESC",
        };
        self.query.push(("orderBy".into(), alloc::format!("{field}:{order}")));
        self
    }

    /// Only those whose name holds this.
    #[must_use]
    pub fn name(self, name: impl Into<String>) -> Self {
        self.set("name", name)
    }

    /// Only those that are, or are not, switched off.
    #[must_use]
    pub fn status(self, status: impl Into<ResourceStatus>) -> Self {
        self.set("status", status.into())
    }

    /// Only apps made from this blueprint.
    #[must_use]
    pub fn blueprint_id(self, id: impl Into<String>) -> Self {
        self.set("blueprintId", id)
    }

    /// Only those that match this text. The official client sends it; the API does not document it.
    #[must_use]
    pub fn search(self, text: impl Into<String>) -> Self {
        self.set("search", text)
    }

    /// Sorts as the official client asks for it, with `sortBy` and `sortOrder`. The API documents
    /// [`order_by`](Self::order_by) instead.
    #[must_use]
    pub fn sort_by(self, field: impl Into<String>, order: SortOrder) -> Self {
        let order = match order {
            SortOrder::Asc => "asc",
            SortOrder::Desc => "desc",
        };
        self.set("sortBy", field).set("sortOrder", order)
    }

    /// Any other parameter, for example `slug` or `isActive`.
    #[must_use]
    pub fn set(mut self, name: &str, value: impl Into<String>) -> Self {
        self.query.retain(|(other, _)| other != name);
        self.query.push((name.into(), value.into()));
        self
    }

    /// What to ask for after `page` came as the answer to these; `None` if it was the last.
    pub fn after<T>(&self, page: &Page<T>) -> Option<Self> {
        let asked = self.query.iter().find(|(name, _)| name == "page");
        let asked = asked.and_then(|(_, page)| page.parse().ok()).unwrap_or(1);
        let more = !page.data.is_empty() && asked < page.pagination.page_count;
        more.then(|| self.clone().page(asked.saturating_add(1)))
    }

    pub(super) fn query(&self) -> Vec<(String, String)> {
        self.query.clone()
    }
}

/// A part of a list, or all of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Page<T> {
    /// The entries.
    pub data: Vec<T>,
    /// Which part of the list they are. A plain list is its own only page.
    pub pagination: Pagination,
}

/// Where a [`Page`] stands in its list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Pagination {
    /// Entries in the whole list.
    pub total: u64,
    /// The page's number, from 1.
    pub page: u64,
    /// How many pages there are.
    pub page_count: u64,
}

impl<T> IntoIterator for Page<T> {
    type Item = T;
    type IntoIter = vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.data.into_iter()
    }
}

impl<'p, T> IntoIterator for &'p Page<T> {
    type Item = &'p T;
    type IntoIter = core::slice::Iter<'p, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.data.iter()
    }
}

/// Reads where a page of `len` entries stands. A list that does not say is whole.
pub(super) fn pagination(value: Option<Value>, len: usize) -> Pagination {
    let value = value.unwrap_or_default();
    let field = |name| number(&value[name]);
    Pagination {
        total: field("total").unwrap_or_else(|| u64::try_from(len).unwrap_or(u64::MAX)),
        page: field("page").unwrap_or(1),
        page_count: field("pageCount").or_else(|| field("totalPages")).unwrap_or(1),
    }
}
