//! Every input that a fuzzer has kept, and every bomb, through its target with each `cargo test`.

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    thread,
};

use nolag_conformance::fuzz::{TARGETS, bombs, seeds};

/// Stack of the second run. Tests have 2 MiB, in which what recurses over an input would long go unnoticed. Frames are
/// read without recursion, and their payloads to 64 levels. JSON is read to 128, of 1 to 2 KiB each without optimisation.
const SMALL_STACK: usize = 128 << 10;
const SMALL_STACK_FOR_JSON: usize = 256 << 10;

/// Most files of all corpora together, and most bytes: they are for everybody who clones the repository.
const MOST_FILES: usize = 300;
const MOST_BYTES: u64 = 400 << 10;

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn names(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

/// The corpus of a target, by name.
fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let files = names(&fuzz().join("corpus").join(target));
    assert!(!files.is_empty(), "{target} has no corpus");
    let read = |path: PathBuf| {
        let content = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        (path.display().to_string(), content)
    };
    files.into_iter().map(read).collect()
}

/// Runs inputs of a target; what fails is named by what the test prints last.
fn replay(target: &str, run: fn(&[u8]), inputs: Vec<(String, Vec<u8>)>) {
    for (name, input) in inputs {
        println!("{target}: {name}");
        run(&input);
    }
}

#[test]
fn what_was_found_once_holds() {
    TARGETS.iter().for_each(|(target, run)| replay(target, *run, corpus(target)));
}

#[test]
fn no_input_needs_a_deep_stack_and_bombs_are_none() {
    for (target, run) in TARGETS {
        let bombs = bombs::of(target);
        assert!(bombs.len() >= 10, "{target}: {} bombs", bombs.len());
        let inputs = corpus(target).into_iter().chain(bombs).collect();
        let reads_json = matches!(*target, "auth_file" | "rest_parse" | "trace_reader");
        let size = if reads_json { SMALL_STACK_FOR_JSON } else { SMALL_STACK };
        let small = thread::Builder::new().name(format!("{target} on a small stack")).stack_size(size);
        let thread = small.spawn(|| replay(target, *run, inputs)).expect("a thread");
        thread.join().expect("every input passes");
    }
}

#[test]
fn every_target_has_a_shim_and_a_corpus_and_nothing_else_is_there() {
    let known: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(known.len(), TARGETS.len(), "a name stands twice");
    let stems = |directory: &str| -> BTreeSet<String> {
        let stem = |path: PathBuf| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        names(&fuzz().join(directory)).into_iter().filter_map(stem).collect()
    };
    assert_eq!(stems("fuzz_targets"), known, "shims");
    assert_eq!(stems("corpus"), known, "corpora");
    let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).expect("the manifest of the shims");
    for target in &known {
        let shim = fuzz().join("fuzz_targets").join(format!("{target}.rs"));
        let shim = fs::read_to_string(shim).expect("a shim");
        assert!(shim.contains(&format!("nolag_conformance::fuzz::{target}(input)")), "{target}: {shim}");
        assert!(manifest.contains(&format!("name = \"{target}\"")), "{target} is not in the manifest");
    }
    assert_eq!(manifest.matches("[[bin]]").count(), known.len(), "binaries");
}

#[test]
fn corpora_stay_small() {
    let files: Vec<PathBuf> =
        TARGETS.iter().flat_map(|(name, _)| names(&fuzz().join("corpus").join(name))).collect();
    let bytes: u64 = files.iter().map(|path| fs::metadata(path).expect("a file").len()).sum();
    assert!(files.len() <= MOST_FILES, "{} files", files.len());
    assert!(bytes <= MOST_BYTES, "{bytes} bytes");
}

#[test]
fn recordings_give_inputs_to_start_from() {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces");
    for (target, run) in TARGETS {
        let seeds = seeds::of(target, &traces).expect("the recordings can be read");
        assert!(seeds.len() > 5, "{target}: {}", seeds.len());
        seeds.iter().for_each(|seed| run(seed));
    }
}

/// `cargo test -p nolag-conformance --test corpora -- --ignored` writes the recordings in the form that each target
/// reads, to `fuzz/target/seeds` or into the directory that `NOLAG_FUZZ_SEEDS` names.
#[test]
#[ignore = "writes files"]
fn write_seeds() {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces");
    let into = env::var_os("NOLAG_FUZZ_SEEDS").map_or_else(|| fuzz().join("target/seeds"), PathBuf::from);
    for (target, _) in TARGETS {
        let directory = into.join(target);
        fs::create_dir_all(&directory).expect("a directory to write to");
        let seeds = seeds::of(target, &traces).expect("the recordings can be read");
        for (number, seed) in seeds.iter().enumerate() {
            fs::write(directory.join(format!("seed-{number:04}")), seed).expect("a file to write");
        }
    }
}
