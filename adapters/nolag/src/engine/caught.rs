//! Panics of the application's code end where it was called.

use std::{
    any::Any,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// What a panic left behind. It is the application's, so that only [`message`] and [`dispose`] may drop it.
pub(crate) type Panic = Box<dyn Any + Send>;

/// Runs code of the application, or code that drops something of it.
pub(crate) fn catch<R>(call: impl FnOnce() -> R) -> Result<R, Panic> {
    catch_unwind(AssertUnwindSafe(call))
}

/// Drops what is the application's, whose destructor may panic, too.
pub(crate) fn dispose<T>(value: T) {
    if let Err(panic) = catch(|| drop(value)) {
        // There would be no end to it.
        mem::forget(panic);
    }
}

/// What a panic said.
pub(super) fn message(panic: Panic) -> String {
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map_or_else(String::new, |text| (*text).to_owned());
            dispose(panic);
            text
        }
    }
}
