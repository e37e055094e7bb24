//! Functions that the client calls.

use std::{future::Future, pin::Pin};

/// Names a handler, to remove it with [`Client::off`](crate::Client::off).
///
/// Dropping it does nothing: the handler stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HandlerId(pub(crate) u64);

/// What a handler may return: nothing, or a future of nothing, which is then awaited before the next handler runs.
///
/// So both `|message| …` and `|message| async move { … }` are handlers. `Kind` tells the two apart and is always
/// inferred, unless a handler does nothing but panic: then it says what it would return, `|message| -> () { panic!() }`.
pub trait HandlerReturn<Kind>: sealed::Sealed<Kind> {}

impl HandlerReturn<sealed::Returned> for () {}
impl<F: Future<Output = ()> + Send + 'static> HandlerReturn<sealed::Awaited> for F {}

/// What is left to do after a handler has returned.
pub(crate) type Work = Option<Pin<Box<dyn Future<Output = ()> + Send>>>;

pub(crate) mod sealed {
    use super::{Future, Work};

    /// Of handlers that return nothing.
    #[derive(Debug)]
    pub struct Returned;

    /// Of handlers that return a future.
    #[derive(Debug)]
    pub struct Awaited;

    pub trait Sealed<Kind> {
        #[doc(hidden)]
        fn into_work(self) -> WorkBox;
    }

    /// Hides the type of the boxed future from the public trait.
    #[doc(hidden)]
    #[allow(missing_debug_implementations)]
    pub struct WorkBox(pub(crate) Work);

    impl Sealed<Returned> for () {
        fn into_work(self) -> WorkBox {
            WorkBox(None)
        }
    }

    impl<F: Future<Output = ()> + Send + 'static> Sealed<Awaited> for F {
        fn into_work(self) -> WorkBox {
            WorkBox(Some(Box::pin(self)))
        }
    }
}
