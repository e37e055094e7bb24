//! Lists: what to ask for, and the pages that come.

use alloc::{
    string::{String, ToString},
    vec::{self, Vec},
};

use serde::Serialize;
use serde_json::Value;

use super::{ApiError, Redactor, ResourceStatus, error, json::number};

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

    /// Which page, from 1. A call for page 0 is [`ApiError::Misuse`].
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
    ///
    /// The last is the one that the server's count says, or, from a server that does not count, one that is empty or
    /// shorter than the [limit](Self::limit). This knows no other page: a [`PageWalk`] ends whatever servers do.
    pub fn after<T>(&self, page: &Page<T>) -> Option<Self> {
        let asked = self.asked();
        let more = match page.pagination.page_count {
            0 => !self.is_short(page.data.len()),
            count => asked < count,
        };
        (more && !page.data.is_empty()).then(|| self.clone().page(asked.saturating_add(1)))
    }

    /// The number of the page that this asks for.
    fn asked(&self) -> u64 {
        self.number("page").unwrap_or(1)
    }

    /// Whether a page of so many entries is not full.
    fn is_short(&self, len: usize) -> bool {
        let full = self.number("limit").map(|limit| limit.min(MAX_LIMIT));
        full.is_some_and(|full| u64::try_from(len).is_ok_and(|len| len < full))
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.query.iter().find(|(other, _)| other == name)?.1.parse().ok()
    }

    pub(super) fn query(&self) -> Result<Vec<(String, String)>, ApiError> {
        match self.number("page") {
            Some(0) => Err(error::misuse("page", "is 0; pages are counted from 1")),
            _ => Ok(self.query.clone()),
        }
    }
}

/// Most entries that control planes put on a page.
const MAX_LIMIT: u64 = 100;

/// A way through a list, page by page, that ends whatever the server does.
///
/// Ask for [`params`](Self::params) and give the answer to [`take`](Self::take), until there are no more of them.
///
/// Servers that ignore which page is asked for would answer with the first one for ever, and others could count ever more
/// pages. So a page with the same entries as the one before is the end: as an [`ApiError::Decode`] from servers that count
/// pages, since then others are missing, and in silence from those that do not. The same error ends a list that has grown
/// to more than twice the pages that it had at first, and 100.
#[derive(Debug, Clone)]
pub struct PageWalk {
    /// What to ask for next.
    params: Option<ListParams>,
    /// Of the last page.
    ids: Option<Ids>,
    /// No page after this one is believed.
    last: Option<u64>,
}

impl PageWalk {
    /// One that begins with the page that these ask for.
    pub fn new(params: ListParams) -> Self {
        Self { params: Some(params), ids: None, last: None }
    }

    /// What to ask for next; `None` at the end.
    pub fn params(&self) -> Option<&ListParams> {
        self.params.as_ref()
    }

    /// Takes the answer to [`params`](Self::params), and gives what to make of it; `None` if it is nothing new, and the
    /// end. An error is the end. `request` is what to call the request in an error.
    pub fn take<T>(
        &mut self,
        request: &str,
        answer: Result<Page<T>, ApiError>,
    ) -> Option<Result<Page<T>, ApiError>> {
        let params = self.params.take()?;
        let page = match answer {
            Ok(page) => page,
            Err(error) => return Some(Err(error)),
        };
        let (asked, count) = (params.asked(), page.pagination.page_count);
        let unreadable =
            |reason: String| Some(Err(error::unreadable(request.into(), 200, &reason, b"[]", Redactor(&[]))));
        let same = self.ids.replace(page.ids) == Some(page.ids);
        if same && !page.data.is_empty() {
            return match count {
                0 => None,
                _ => unreadable(alloc::format!("page {asked} of {count} has the entries of the page before")),
            };
        }
        let grown = if count == 0 { MAX_PAGES } else { count.saturating_mul(2).saturating_add(100) };
        let last = *self.last.get_or_insert_with(|| grown.min(MAX_PAGES));
        if asked > last && (count == 0 || asked < count) {
            return unreadable(alloc::format!("the list has grown without an end, to {count} pages"));
        }
        self.params = params.after(&page);
        Some(Ok(page))
    }
}

/// Far more pages than any list has.
const MAX_PAGES: u64 = 1_000_000;

/// The ids of a page, as one number that another page's ids hardly have (FNV-1a).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ids(u64);

impl Default for Ids {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Ids {
    pub(super) fn add(&mut self, id: &str) {
        // No text has this byte, so that it parts them.
        for byte in id.bytes().chain([0xff]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
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
    #[serde(skip)]
    pub(super) ids: Ids,
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
    /// How many pages there are. 0 if the server does not say although it pages the list; see [`ListParams::after`].
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

/// Reads where a page of `len` entries stands. A list that does not say anything is whole.
pub(super) fn pagination(value: Option<Value>, len: usize) -> Pagination {
    let value = value.unwrap_or_default();
    let pages = u64::from(!value.is_object());
    let field = |name| number(&value[name]);
    Pagination {
        total: field("total").unwrap_or_else(|| u64::try_from(len).unwrap_or(u64::MAX)),
        page: field("page").unwrap_or(1),
        page_count: field("pageCount").or_else(|| field("totalPages")).unwrap_or(pages),
    }
}
