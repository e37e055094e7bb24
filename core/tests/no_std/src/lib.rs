//! Proves that the core runs without the standard library.

#![no_std]

use nolag_core::{ClientCore, Config, Disconnect, Instant, rest};

#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// Runs a core through its life. It is exported, so it and all that it calls are in the library.
#[unsafe(no_mangle)]
pub extern "C" fn nolag_run(now: u64) -> bool {
    let now = Instant::from_micros(now);
    let Ok(mut core) = ClientCore::new(Config::new("token"), 1, now) else { return false };
    let connecting = core.connect(now).is_ok();
    core.handle_timeout(now);
    core.disconnect(now, Disconnect::Now);
    connecting && core.poll_event().is_some()
}

/// As [`nolag_run`], for the REST control plane.
#[unsafe(no_mangle)]
pub extern "C" fn nolag_rest() -> bool {
    rest::apps::list(&rest::ListParams::new()).is_ok_and(|call| call.parse(200, b"[]").is_ok())
}
