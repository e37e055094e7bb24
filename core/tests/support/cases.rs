//! How often a property is tried.

use proptest::test_runner::Config;

/// As many cases as `PROPTEST_CASES` says where that many of the usual 256 are asked for, and more or fewer in
/// proportion. Nothing is written to disk: a case that failed becomes a test with a name.
pub(crate) fn cases(of_256: u32) -> Config {
    let usual = Config::default();
    let cases = (u64::from(usual.cases) * u64::from(of_256) / 256).clamp(1, u32::MAX.into());
    Config {
        // Clamped to 32 bits above.
        cases: cases as u32,
        failure_persistence: None,
        max_shrink_iters: 4_000,
        ..usual
    }
}
