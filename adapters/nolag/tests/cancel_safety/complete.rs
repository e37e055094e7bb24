//! Nothing is missing: the sources of the crate are read for public futures, and compared with the cases.
//!
//! It reads what rustfmt has laid out, line by line, and knows no more Rust than that takes.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// What the sources say.
#[derive(Default)]
struct Api {
    /// The documentation of public types.
    types: BTreeMap<String, String>,
    /// Public names of other types.
    aliases: BTreeMap<String, String>,
    /// Types that are a future.
    futures: BTreeSet<String>,
    /// Types that become one, and which.
    builders: BTreeMap<String, String>,
    /// Types that are a stream.
    streams: BTreeSet<String>,
    methods: Vec<Method>,
}

struct Method {
    /// `Type::method`, or the name of a function.
    name: String,
    docs: String,
    is_async: bool,
    /// Empty where nothing is returned.
    returned: String,
}

#[test]
fn every_public_future_has_a_case() {
    let api = Api::read();
    let futures: BTreeSet<String> =
        api.methods.iter().filter(|it| api.is_future(it)).map(|it| it.name.clone()).collect();
    let streams = api.streams.iter().map(|stream| format!("Stream for {stream}"));
    let expected: BTreeSet<String> = futures.into_iter().chain(streams).collect();
    // Fewer would mean that the sources are not understood.
    assert!(expected.len() > 40 && expected.contains("Client::connect"), "{expected:?}");
    let names: Vec<String> = crate::all().iter().map(|case| case.name.to_owned()).collect();
    let cases: BTreeSet<String> = names.iter().cloned().collect();
    assert_eq!(names.len(), cases.len(), "a case stands there twice: {names:?}");
    let missing: Vec<_> = expected.difference(&cases).collect();
    let unknown: Vec<_> = cases.difference(&expected).collect();
    assert!(
        missing.is_empty() && unknown.is_empty(),
        "without a case: {missing:?}; without a future: {unknown:?}"
    );
}

#[test]
fn every_public_future_is_returned_by_a_public_method() {
    let api = Api::read();
    let returned = |name: &str| {
        let made_of = |it: &Method| identifiers(&it.returned).any(|part| api.is(part, name));
        api.methods.iter().any(made_of)
    };
    for future in &api.futures {
        let builder = api.builders.iter().find(|(_, becomes)| *becomes == future);
        let known = returned(future) || builder.is_some_and(|(builder, _)| returned(builder));
        assert!(known, "{future} is a future, and no public method returns it");
    }
}

#[test]
fn every_public_future_says_what_a_drop_does() {
    let api = Api::read();
    let silent = api.methods.iter().filter(|it| api.is_future(it) && !api.says(it));
    let silent: Vec<_> = silent.map(|it| &it.name).collect();
    assert!(silent.is_empty(), "nothing about cancel safety is said of {silent:?}");
    for stream in &api.streams {
        let next = api.methods.iter().find(|it| it.name == format!("{stream}::next"));
        let docs = api.types.get(stream).into_iter().chain(next.map(|it| &it.docs));
        assert!(docs.into_iter().any(|docs| says(docs)), "nothing about cancel safety is said of {stream}");
    }
}

fn says(docs: &str) -> bool {
    docs.contains("# Cancel safety") || docs.contains("Cancel-safe")
}

impl Api {
    fn read() -> Self {
        let mut api = Self::default();
        let mut files = Vec::new();
        list(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
        // REST calls have no client behind them whose state could suffer: see `tests/api/dropping.rs`.
        files.retain(|file| !file.iter().any(|part| part == "api"));
        for file in files {
            api.read_file(&fs::read_to_string(file).unwrap());
        }
        // What is not public is no concern of users.
        let public: BTreeSet<&String> = api.types.keys().collect();
        api.futures.retain(|name| public.contains(name));
        api.streams.retain(|name| public.contains(name));
        api.methods.retain(|it| {
            it.name.split_once("::").is_none_or(|(owner, _)| public.contains(&owner.to_owned()))
        });
        api
    }

    fn read_file(&mut self, text: &str) {
        let (mut docs, mut owner) = (String::new(), None);
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let code = line.trim_start();
            if let Some(doc) = code.strip_prefix("///") {
                docs.push_str(doc);
                docs.push('\n');
                continue;
            }
            if code.starts_with("#[") || code.starts_with("//") {
                continue;
            }
            let docs = std::mem::take(&mut docs);
            let indent = line.len() - code.len();
            let (public, is_async) = (
                code.starts_with("pub fn ") || code.starts_with("pub async fn "),
                code.starts_with("pub async fn "),
            );
            if indent == 0 && (code.starts_with("impl ") || code.starts_with("impl<")) {
                owner = self.read_impl(&header(line, &mut lines));
            } else if indent == 0 && code.starts_with("pub struct ") {
                self.types.insert(first_identifier(&code["pub struct ".len()..]), docs);
            } else if let Some(alias) = code.strip_prefix("pub type ").filter(|_| indent == 0) {
                let (name, of) = alias.split_once(" = ").unwrap();
                self.aliases.insert(first_identifier(name), first_identifier(of));
            } else if let Some(target) = code.strip_prefix("type IntoFuture = ") {
                if let Some((builder, true)) = &owner {
                    self.builders.insert(builder.clone(), first_identifier(target));
                }
            } else if public && (indent == 0 || (indent == 4 && matches!(owner, Some((_, false))))) {
                let header = header(line, &mut lines);
                let declared = &header[header.find("fn ").unwrap() + 3..];
                let name = first_identifier(declared);
                let name = match &owner {
                    Some((owner, _)) if indent == 4 => format!("{owner}::{name}"),
                    _ => name,
                };
                self.methods.push(Method { name, docs, is_async, returned: returned(declared) });
            } else if line == "}" {
                owner = None;
            }
        }
    }

    /// The type, and whether it is a trait that is implemented.
    fn read_impl(&mut self, header: &str) -> Option<(String, bool)> {
        let rest = after_generics(&header["impl".len()..]);
        let Some((implemented, of)) = rest.split_once(" for ") else {
            return Some((first_identifier(rest), false));
        };
        let name = first_identifier(of);
        let path = implemented.split('<').next().unwrap_or_default();
        match path.rsplit("::").next().unwrap_or_default().trim() {
            "Future" => _ = self.futures.insert(name.clone()),
            "Stream" => _ = self.streams.insert(name.clone()),
            _ => {}
        }
        Some((name, true))
    }

    /// Whether a name is another one's, or its own.
    fn is(&self, name: &str, of: &str) -> bool {
        name == of || self.aliases.get(name).is_some_and(|name| name == of)
    }

    fn is_future(&self, it: &Method) -> bool {
        let known = |part: &str| {
            let part = self.aliases.get(part).map_or(part, String::as_str);
            part == "Future" || self.futures.contains(part) || self.builders.contains_key(part)
        };
        it.is_async || identifiers(&it.returned).any(known)
    }

    /// Whether it says what a drop does: itself, what it returns, or a method of the same return type that it refers to.
    fn says(&self, it: &Method) -> bool {
        let of_type = identifiers(&it.returned).any(|part| {
            let part = self.aliases.get(part).map_or(part, String::as_str);
            self.types.get(part).is_some_and(|docs| says(docs))
        });
        let owner = it.name.split("::").next();
        let referred = self.methods.iter().any(|other| {
            let (full, short) = (&other.name, other.name.rsplit("::").next().unwrap_or_default());
            let link = it.docs.contains(&format!("[`{full}`]"))
                || (owner == full.split("::").next() && it.docs.contains(&format!("(Self::{short})")));
            link && first_identifier(&other.returned) == first_identifier(&it.returned) && says(&other.docs)
        });
        says(&it.docs) || of_type || referred
    }
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            list(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// An item up to its body, in one line.
fn header<'t>(first: &str, lines: &mut impl Iterator<Item = &'t str>) -> String {
    let mut header = first.trim().to_owned();
    while !header.ends_with(['{', '}', ';']) {
        header.push(' ');
        header.push_str(lines.next().unwrap().trim());
    }
    header
}

/// What stands behind the parameters of generics, if there are any.
fn after_generics(text: &str) -> &str {
    let text = text.trim_start();
    if !text.starts_with('<') {
        return text;
    }
    let (mut depth, mut before) = (0, ' ');
    for (at, char) in text.char_indices() {
        match char {
            '<' => depth += 1,
            '>' if before != '-' => depth -= 1,
            _ => {}
        }
        before = char;
        if depth == 0 {
            return text[at + 1..].trim_start();
        }
    }
    text
}

/// The return type of a function, given from its name on.
fn returned(declared: &str) -> String {
    let name = first_identifier(declared);
    let parameters = after_generics(&declared[name.len()..]);
    let mut depth = 0;
    let end = parameters.char_indices().find(|(_, char)| {
        depth += i32::from(*char == '(') - i32::from(*char == ')');
        depth == 0
    });
    let rest = end.map_or("", |(at, _)| &parameters[at + 1..]);
    let returned = rest.trim_start().strip_prefix("-> ").unwrap_or_default();
    returned.split(" where ").next().unwrap_or_default().trim_end_matches('{').trim().to_owned()
}

fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    text.split(|char: char| !char.is_alphanumeric() && char != '_').filter(|part| !part.is_empty())
}

/// The last part of the path that the text begins with.
fn first_identifier(text: &str) -> String {
    let path =
        text.split(|char: char| !char.is_alphanumeric() && !"_:".contains(char)).next().unwrap_or_default();
    path.rsplit("::").next().unwrap_or_default().trim_end_matches(':').to_owned()
}
