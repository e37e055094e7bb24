//! Lists that come in pages.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures_core::Stream;
use nolag_core::rest::{ApiError, Call, ListParams, Page, PageWalk};

use super::call::{ApiCall, Shared};
use crate::stream::Next;

/// The pages of a list, one after the other. A [`Stream`] of `Result<Page<T>, ApiError>`, and with the crate feature
/// `blocking` also an iterator: `iter()`.
///
/// Each page is asked for when the one before it has been taken. An error ends it, after the call's retries. What is
/// created or deleted meanwhile may shift entries from page to page. Servers cannot make it endless: one that gives the same
/// page again, or counts ever more pages, is [`ApiError::Decode`]. See [`PageWalk`].
///
/// ```no_run
/// # async fn example(api: nolag::NoLagApi) -> Result<(), nolag::NoLagApiError> {
/// use nolag::api::ListParams;
///
/// let mut pages = api.apps().pages(ListParams::new().limit(100));
/// while let Some(page) = pages.next().await {
///     for app in page? {
///         println!("{}", app.slug);
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is asked for before it is polled"]
pub struct Pages<T> {
    shared: Arc<Shared>,
    list: Box<List<T>>,
    walk: PageWalk,
    /// What was asked for.
    call: Option<ApiCall<Page<T>>>,
}

type List<T> = dyn Fn(&ListParams) -> Result<Call<Page<T>>, ApiError> + Send + Sync;

impl<T: Send + 'static> Pages<T> {
    pub(super) fn new(
        shared: &Arc<Shared>,
        params: ListParams,
        list: impl Fn(&ListParams) -> Result<Call<Page<T>>, ApiError> + Send + Sync + 'static,
    ) -> Self {
        Self { shared: shared.clone(), list: Box::new(list), walk: PageWalk::new(params), call: None }
    }

    /// The next page; `None` after the last one.
    ///
    /// Cancel-safe: a dropped call has taken no page.
    ///
    /// # Errors
    /// As of the list. It is the end.
    #[allow(clippy::should_implement_trait, reason = "it is awaited; only `iter` blocks")]
    pub fn next(&mut self) -> Next<'_, Self> {
        Next::new(self)
    }
}

impl<T: Send + 'static> Stream for Pages<T> {
    type Item = Result<Page<T>, ApiError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let Some(params) = this.walk.params() else { return Poll::Ready(None) };
        let call = this.call.get_or_insert_with(|| ApiCall::new(&this.shared, (this.list)(params)));
        let answer = ready!(Pin::new(&mut *call).poll(cx));
        let answer = this.walk.take(&call.request, answer);
        this.call = None;
        Poll::Ready(answer)
    }
}

impl<T> fmt::Debug for Pages<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages").field("params", &self.walk.params()).finish_non_exhaustive()
    }
}
