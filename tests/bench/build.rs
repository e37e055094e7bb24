//! Tells the crate with what it was compiled, for the description of the environment.

use std::{env, process::Command};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let compiler = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(compiler).arg("--version").output();
    let version = output.ok().and_then(|output| String::from_utf8(output.stdout).ok());
    println!("cargo:rustc-env=COMPILER={}", version.as_deref().unwrap_or("rustc").trim());
}
