//! The core links into a `#![no_std]` static library.

use std::{path::Path, process::Command};

#[test]
fn the_core_links_into_a_static_library_without_std() {
    let manifest_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target_dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no_std");
    let output = Command::new(env!("CARGO"))
        .args(["build", "--lib", "--manifest-path"])
        .arg(manifest_dir.join("tests/no_std/Cargo.toml"))
        .arg("--target-dir")
        .arg(&target_dir)
        .env_remove("RUSTFLAGS")
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let library = target_dir.join("debug/libnolag_no_std.a");
    assert!(library.is_file(), "{} was not built", library.display());
}
