//! What of a list is asked for.

use std::cmp::Ordering;

use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use super::{
    api::{ApiResponse, Refusal},
    check::shown,
};

const DEFAULT_LIMIT: usize = 10;
const MAX_LIMIT: usize = 100;

/// Fields that have to be what is asked for. `name` only has to hold it.
const EQUAL: &[&str] = &[
    "accessScopeId",
    "actorTokenId",
    "actorType",
    "blueprintId",
    "externalId",
    "isActive",
    "isEnabled",
    "permission",
    "roomType",
    "slug",
    "status",
];

/// Fields that a search looks into.
const SEARCHED: &[&str] = &["name", "slug", "description", "externalId"];

/// The query of a list: the documented parameters, and those of the official client.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ListQuery {
    page: usize,
    limit: usize,
    /// Fields, and whether the largest comes first.
    order: Vec<(String, bool)>,
    name: Option<String>,
    search: Option<String>,
    equal: Vec<(&'static str, String)>,
}

impl ListQuery {
    /// Reads a query. What it does not know is refused: ignored, it would give too much.
    pub(super) fn read(query: &str) -> Result<Self, Refusal> {
        let mut read = Self {
            page: 1,
            limit: DEFAULT_LIMIT,
            order: Vec::new(),
            name: None,
            search: None,
            equal: Vec::new(),
        };
        let bad = |message: String| Err(Refusal::new(400, message));
        let (mut sort_by, mut descending) = (None, false);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (key, value) = (decoded(key)?, decoded(value)?);
            match key.as_str() {
                "limit" => read.limit = number("limit", &value)?.clamp(1, MAX_LIMIT),
                "name" => read.name = Some(value.to_lowercase()),
                "orderBy" => {
                    for order in value.split(',') {
                        let (field, way) = order.split_once(':').unwrap_or((order, "ASC"));
                        read.order.push((field.into(), is_descending("orderBy", way)?));
                    }
                }
                "page" => read.page = number("page", &value)?.max(1),
                "search" => read.search = Some(value.to_lowercase()),
                "sortBy" => sort_by = Some(value),
                "sortOrder" => descending = is_descending("sortOrder", &value)?,
                other => match EQUAL.iter().find(|known| **known == other) {
                    Some(known) => read.equal.push((known, value)),
                    None => return bad(format!("query parameter {} should not exist", shown(other))),
                },
            }
        }
        read.order.extend(sort_by.map(|field| (field, descending)));
        Ok(read)
    }

    /// The part of a list that is asked for, with where it stands.
    pub(super) fn page(&self, views: impl Iterator<Item = Value>) -> ApiResponse {
        let views = self.select(views);
        let total = views.len();
        let start = (self.page - 1).saturating_mul(self.limit);
        let data: Vec<Value> = views.into_iter().skip(start).take(self.limit).collect();
        let pagination = json!({"total": total, "page": self.page, "pageCount": total.div_ceil(self.limit)});
        ApiResponse::json(200, &json!({"data": data, "pagination": pagination}))
    }

    /// The whole list: those that are not cut into pages have no place to say which page this is.
    pub(super) fn plain(&self, views: impl Iterator<Item = Value>) -> ApiResponse {
        ApiResponse::json(200, &self.select(views))
    }

    fn select(&self, views: impl Iterator<Item = Value>) -> Vec<Value> {
        let mut selected: Vec<Value> = views.filter(|view| self.selects(view)).collect();
        selected.sort_by(|a, b| {
            let by = |(field, descending): &(String, bool)| {
                let order = compare(&a[field.as_str()], &b[field.as_str()]);
                if *descending { order.reverse() } else { order }
            };
            // Fields that are not there are all the same.
            self.order.iter().map(by).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
        });
        selected
    }

    fn selects(&self, view: &Value) -> bool {
        let holds = |field: &str, part: &str| {
            view[field].as_str().is_some_and(|text| text.to_lowercase().contains(part))
        };
        let is = |(field, wanted): &(&str, String)| match &view[field] {
            Value::String(text) => text == wanted,
            Value::Bool(flag) => flag.to_string() == *wanted,
            _ => false,
        };
        self.name.as_ref().is_none_or(|part| holds("name", part))
            && self.search.as_ref().is_none_or(|part| SEARCHED.iter().any(|field| holds(field, part)))
            && self.equal.iter().all(is)
    }
}

fn decoded(text: &str) -> Result<String, Refusal> {
    let text = text.replace('+', " ");
    let decoded = percent_decode_str(&text).decode_utf8();
    decoded.map(Into::into).map_err(|_| Refusal::new(400, "the query is not UTF-8"))
}

fn number(key: &str, value: &str) -> Result<usize, Refusal> {
    value.parse().map_err(|_| Refusal::new(400, format!("{key} must be a number, not {}", shown(value))))
}

fn is_descending(key: &str, way: &str) -> Result<bool, Refusal> {
    match way.to_ascii_lowercase().as_str() {
        "asc" => Ok(false),
        "desc" => Ok(true),
        _ => Err(Refusal::new(400, format!("{key} must end with ASC or DESC, not {}", shown(way)))),
    }
}

fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Null, Value::Null) => Ordering::Equal,
        (Value::Null, _) => Ordering::Less,
        (_, Value::Null) => Ordering::Greater,
        _ => Ordering::Equal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(query: &str) -> Vec<String> {
        let views = [("b", "active"), ("a", "disabled"), ("C d", "active")];
        let views = views.map(|(name, status)| json!({"name": name, "status": status}));
        let selected = ListQuery::read(query).unwrap().select(views.into_iter());
        selected.iter().map(|view| view["name"].as_str().unwrap().into()).collect()
    }

    #[test]
    fn lists_are_filtered_and_sorted_as_asked() {
        assert_eq!(names(""), ["b", "a", "C d"]);
        assert_eq!(names("orderBy=name:DESC"), ["b", "a", "C d"]);
        assert_eq!(names("sortBy=name&sortOrder=asc"), ["C d", "a", "b"]);
        assert_eq!(names("orderBy=status,name:DESC"), ["b", "C d", "a"]);
        assert_eq!(names("orderBy=status:desc&orderBy=name"), ["a", "C d", "b"]);
        assert_eq!(names("orderBy=colour:ASC"), ["b", "a", "C d"], "unknown fields are dropped");
        assert_eq!(names("status=active"), ["b", "C d"]);
        assert_eq!(names("name=c+D"), ["C d"]);
        assert_eq!(names("search=%42"), ["b"]);
        assert_eq!(names("slug=none"), [""; 0]);
    }

    #[test]
    fn what_a_list_does_not_know_is_refused() {
        for query in ["colour=red", "page=first", "limit=-1", "orderBy=name:UP", "sortOrder=up", "name=%ff"] {
            assert_eq!(ListQuery::read(query).unwrap_err().status, 400, "{query}");
        }
    }

    #[test]
    fn pages_are_counted_and_bounded() {
        let page = |query: &str| {
            let views = (0..250).map(|n| json!({"n": n}));
            let answer = ListQuery::read(query).unwrap().page(views);
            serde_json::from_str::<Value>(&answer.body).unwrap()
        };
        let second = page("page=2&limit=100");
        assert_eq!(second["pagination"], json!({"total": 250, "page": 2, "pageCount": 3}));
        assert_eq!((&second["data"][0]["n"], second["data"].as_array().unwrap().len()), (&json!(100), 100));
        assert_eq!(page("limit=1000")["data"].as_array().unwrap().len(), 100);
        assert_eq!(page("")["data"].as_array().unwrap().len(), 10);
        assert_eq!(page("limit=0&page=0")["pagination"], json!({"total": 250, "page": 1, "pageCount": 250}));
        assert_eq!(page(&format!("page={}", usize::MAX))["data"], json!([]));
    }
}
