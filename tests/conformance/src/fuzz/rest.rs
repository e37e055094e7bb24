//! Answers of the REST control plane, and requests to it.

use std::fmt::Debug;

use nolag_core::rest::{
    ActorCreate, ActorUpdate, ApiError, AppCreate, AppUpdate, BatchMessage, Call, ListParams, Request,
    RoomAccessCreate, RoomCreate, RoomUpdate, ScopeCreate, ScopeUpdate, SortOrder, Value, actors, apps, json,
    publish, rooms, scopes,
};

use super::input::Input;

/// Statuses that are read in ways of their own, and some that are not.
const STATUSES: [u16; 16] = [200, 201, 204, 299, 400, 401, 403, 404, 409, 422, 429, 500, 502, 503, 0, 65535];

/// Longest text of an error, in characters. The text of the input is in it up to three times.
const LONGEST_ERROR: usize = 8_000;

/// Gives a status and a body to everything that reads answers, and a text to everything that makes requests.
///
/// The first byte picks the status, a block after it is the text, and what is left is the body.
///
/// # Panics
/// When one of these does not hold:
///
/// * an answer of 200 to 299 is a value or cannot be decoded, any other is refused, and the error says by what request
///   and without control characters;
/// * the text, as an id, is refused or one segment of the path that decodes to it, and as a parameter it is quoted;
/// * a body that is sent is JSON;
/// * nothing that can be formatted tells a token.
pub fn rest_parse(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let status = input.pick(&STATUSES);
    let text = &*String::from_utf8_lossy(input.block());
    let case = Case { text, status, body: input.rest() };

    check_apps_and_rooms(&case);
    check_actors_and_scopes(&case);
    let message = BatchMessage::new(text, text, text, text).filter(text).scope_id(text);
    case.check("/v1/publish", publish::batch(&[message]));
    case.check("/v1/publish", publish::batch(&[BatchMessage::new("a", "r", "t", 1)]));
    check_token(&case);
}

/// What is given to everything.
struct Case<'a> {
    text: &'a str,
    status: u16,
    body: &'a [u8],
}

fn check_apps_and_rooms(case: &Case<'_>) {
    let (id, params) = (case.text, &case.params());
    let free = json!({ id: [id] });
    case.check("/apps", apps::list(params));
    case.check("/apps/{}", apps::get(id));
    case.check("/apps/{}", apps::delete(id));
    case.check("/apps/{}", apps::update(id, &AppUpdate::new().name(id).config(free.clone())));
    case.check("/apps/{}/reset-to-blueprint", apps::reset_to_blueprint(id));
    case.check("/apps", apps::create(&AppCreate::new(id).description(id).topics([id]).config(free.clone())));
    case.check("/apps/{}/rooms", rooms::list(id, params));
    case.check("/apps/{}/rooms/{}", rooms::get(id, id));
    case.check("/apps/a/rooms/{}", rooms::delete("a", id));
    case.check("/apps/{}/rooms/r", rooms::update(id, "r", &RoomUpdate::new().name(id).metadata(free)));
    case.check("/apps/{}/rooms", rooms::create(id, &RoomCreate::new("n").slug(id)));
    case.check("/apps/{}/rooms/ensure", rooms::ensure(id, &RoomCreate::new(id)));
    case.check("/apps/a/rooms/{}/actors", rooms::list_access("a", id, params));
    let grant = RoomAccessCreate::to_actor(id, "pubSub").role(id);
    case.check("/apps/{}/rooms/{}/actors", rooms::grant_access(id, id, &grant));
    case.check("/apps/{}/rooms/{}/actors/{}", rooms::revoke_access(id, id, id));
}

fn check_actors_and_scopes(case: &Case<'_>) {
    let (id, params) = (case.text, &case.params());
    case.check("/actors", actors::list(params));
    case.check("/actors/{}", actors::get(id));
    case.check("/actors/{}", actors::delete(id));
    case.check("/actors/{}", actors::update(id, &ActorUpdate::new().external_id(id).access_scope_id(id)));
    case.check("/actors", actors::create(&ActorCreate::new(id, id).metadata(Value::Null)));
    case.check("/scopes", scopes::list(params));
    case.check("/scopes/{}", scopes::get(id));
    case.check("/scopes/{}", scopes::delete(id));
    case.check("/scopes/{}", scopes::update(id, &ScopeUpdate::new().name(id)));
    case.check("/scopes", scopes::create(&ScopeCreate::new("s", id).description(id)));
    case.check("/scopes/{}/actors", scopes::list_actors(id, params));
    case.check("/actors/a", scopes::add_actor(id, "a"));
    case.check("/actors/{}", scopes::remove_actor(id));
}

impl Case<'_> {
    fn params(&self) -> ListParams {
        let params = ListParams::new().search(self.text).status(self.text).page(self.status.into());
        params.set(self.text, self.text).order_by(self.text, SortOrder::Desc)
    }

    /// Checks the request, whose path has the text wherever `template` has `{}`, and reads the answer.
    fn check<T: Debug>(&self, template: &str, call: Result<Call<T>, ApiError>) {
        let call = match call {
            Ok(call) => call,
            Err(error) => {
                assert!(matches!(error, ApiError::Misuse { .. }), "{error:?}");
                return check_words(&error);
            }
        };
        let request = call.request();
        self.check_request(template, request);
        let succeeded = (200..300).contains(&self.status);
        match call.parse(self.status, self.body) {
            Ok(value) => {
                assert!(succeeded);
                drop(format!("{value:?}"));
            }
            Err(error) => {
                assert_eq!(error.status(), Some(self.status));
                assert_eq!(matches!(error, ApiError::Decode { .. }), succeeded, "{error:?}");
                assert!(error.to_string().starts_with(request.method.as_str()), "{error}");
                check_words(&error.with_retry_after(self.text));
            }
        }
    }

    fn check_request(&self, template: &str, request: &Request) {
        let path: Vec<&str> = request.path.split('/').collect();
        let expected: Vec<&str> = template.split('/').collect();
        assert_eq!(path.len(), expected.len(), "{} is not {template}", request.path);
        for (segment, expected) in path.iter().zip(expected) {
            let expected = if expected == "{}" { self.text } else { expected };
            assert_eq!(decoded(segment), expected.as_bytes(), "{} is not {template}", request.path);
        }
        let target = request.target();
        let query = target.strip_prefix(&*request.path).expect("the target begins with the path");
        match query.strip_prefix('?') {
            None => assert!(query.is_empty() && request.query.is_empty(), "{target}"),
            Some(query) => {
                for (pair, (name, value)) in query.split('&').zip(&request.query) {
                    let (quoted_name, quoted_value) = pair.split_once('=').expect("a name and a value");
                    assert_eq!(decoded(quoted_name), name.as_bytes());
                    assert_eq!(decoded(quoted_value), value.as_bytes());
                }
                assert_eq!(query.split('&').count(), request.query.len(), "{target}");
            }
        }
        if let Some(body) = &request.body {
            let read: Result<Value, _> = serde_json::from_str(body);
            assert!(read.is_ok(), "{body}: {read:?}");
        }
        drop(format!("{request:?}"));
    }
}

/// The bytes behind percent-encoding.
///
/// # Panics
/// When there is a character that would have to be encoded.
fn decoded(segment: &str) -> Vec<u8> {
    let mut decoded = Vec::new();
    let mut bytes = segment.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let mut digit = || bytes.next().and_then(|digit| char::from(digit).to_digit(16));
            let (high, low) = (digit().expect("a digit"), digit().expect("a digit"));
            decoded.push((high << 4 | low) as u8);
        } else {
            assert!(byte.is_ascii_alphanumeric() || b"-._~".contains(&byte), "{segment}");
            decoded.push(byte);
        }
    }
    decoded
}

fn check_words(error: &ApiError) {
    let shown = error.to_string();
    assert!(!shown.contains(char::is_control), "{shown:?}");
    assert!(shown.chars().count() < LONGEST_ERROR, "{shown}");
    let _ = (error.message(), error.id(), error.body(), error.retry_after());
}

/// The text as a token in an answer: what is formatted is the same for any other token.
fn check_token(case: &Case<'_>) {
    let formatted = |token: &str, id: Value| {
        let body = json!({"actorTokenId": id, "name": "n", "accessToken": token}).to_string();
        let created = actors::create(&ActorCreate::new("n", "user")).expect("a call that can work");
        let read = created.parse(200, body.as_bytes());
        let shown = read.as_ref().err().map(ToString::to_string);
        (
            format!("{read:?}"),
            shown,
            format!("{:?}", actors::get("a").map(|call| call.parse(200, body.as_bytes()))),
        )
    };
    if !case.text.is_empty() {
        assert_eq!(formatted(case.text, json!("a")), formatted("other", json!("a")), "a token shows");
        assert_eq!(formatted(case.text, json!({})), formatted("other", json!({})), "a token shows");
    }
}
