//! Any answer is survived, and any id stays in its place.

use nolag_core::rest::{
    ActorCreate, ApiError, BatchMessage, Call, ListParams, Value, actors, apps, json, publish, rooms, scopes,
};
use proptest::{collection::vec, prelude::*, test_runner::Config as Cases};

/// Reads an answer as every operation would; each gives a value or an error that speaks.
fn read_all(status: u16, body: &[u8]) {
    let every = ListParams::new();
    read(&apps::list(&every), status, body);
    read(&apps::get("a1"), status, body);
    read(&apps::delete("a1"), status, body);
    read(&rooms::list("a1", &every), status, body);
    read(&rooms::get("a1", "r1"), status, body);
    read(&rooms::list_access("a1", "r1", &every), status, body);
    read(&actors::list(&every), status, body);
    read(&actors::create(&ActorCreate::new("n", "user")), status, body);
    read(&scopes::list(&every), status, body);
    read(&scopes::get("s1"), status, body);
    read(&publish::batch(&[BatchMessage::new("a1", "r1", "t", 1)]), status, body);
}

fn read<T: std::fmt::Debug>(call: &Result<Call<T>, ApiError>, status: u16, body: &[u8]) {
    let call = call.as_ref().expect("a call that can work");
    match call.parse(status, body) {
        Ok(value) => {
            assert!((200..300).contains(&status));
            assert!(!format!("{value:?}").is_empty());
        }
        Err(error) => {
            let shown = error.to_string();
            assert!(shown.starts_with(call.request().method.as_str()), "{shown}");
            assert!(!shown.contains(char::is_control), "{shown:?}");
            assert!(shown.chars().count() < 3_000, "{shown}");
            assert_eq!(error.status(), Some(status));
            assert_eq!(matches!(error, ApiError::Decode { .. }), (200..300).contains(&status));
        }
    }
}

/// JSON whose names are often those that are looked for.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    let names = prop::sample::select(vec![
        "appId",
        "roomId",
        "actorTokenId",
        "accessScopeId",
        "roomActorAccessId",
        "accessToken",
        "name",
        "slug",
        "topics",
        "status",
        "config",
        "metadata",
        "hydrationWebhook",
        "data",
        "pagination",
        "meta",
        "total",
        "page",
        "pageCount",
        "messages",
        "id",
        "message",
        "error",
        "code",
        "index",
        "success",
        "url",
        "headers",
        "other",
    ]);
    leaf.prop_recursive(4, 48, 8, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            vec((names.clone(), inner), 0..8).prop_map(|fields| fields
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect()),
        ]
    })
}

fn status() -> impl Strategy<Value = u16> {
    prop_oneof![3 => Just(200), 1 => Just(404), 1 => any::<u16>()]
}

proptest! {
    #![proptest_config(Cases { failure_persistence: None, ..Cases::default() })]

    #[test]
    fn any_bytes_are_survived(status in status(), body in vec(any::<u8>(), 0..200)) {
        read_all(status, &body);
    }

    #[test]
    fn any_json_is_survived(status in status(), body in value()) {
        read_all(status, body.to_string().as_bytes());
    }

    #[test]
    fn damaged_json_is_survived(status in status(), body in value(), cut in any::<prop::sample::Index>(), byte: u8) {
        let mut bytes = body.to_string().into_bytes();
        let at = cut.index(bytes.len());
        read_all(status, &bytes[..at]);
        bytes[at] = byte;
        read_all(status, &bytes);
    }

    #[test]
    fn an_object_with_its_id_is_never_lost(body in value(), id in "[a-z0-9-]{1,36}") {
        let Value::Object(mut fields) = body else { return Ok(()) };
        fields.insert("appId".into(), json!(id));
        let answer = json!({"data": [Value::Object(fields)]}).to_string();
        let page = apps::list(&ListParams::new()).unwrap().parse(200, answer.as_bytes()).unwrap();
        prop_assert_eq!(&page.data[0].app_id, &id);
    }

    #[test]
    fn any_id_is_one_segment_that_decodes_to_itself(id in any::<String>()) {
        let Ok(call) = rooms::get("a1", &id) else {
            prop_assert!(matches!(id.as_str(), "" | "." | ".."));
            return Ok(());
        };
        let path = &call.request().path;
        let segment = path.strip_prefix("/apps/a1/rooms/").unwrap();
        prop_assert!(segment.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~%".contains(&b)), "{}", path);
        let mut decoded = Vec::new();
        let mut bytes = segment.bytes();
        while let Some(byte) = bytes.next() {
            let mut hex = || char::from(bytes.next().unwrap()).to_digit(16).unwrap();
            decoded.push(if byte == b'%' { u8::try_from(hex() * 16 + hex()).unwrap() } else { byte });
        }
        prop_assert_eq!(decoded, id.into_bytes());
    }
}
