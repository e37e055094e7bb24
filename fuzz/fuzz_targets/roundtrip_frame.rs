//! What it claims stands at the function.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| nolag_conformance::fuzz::roundtrip_frame(input));
