//! The examples of every adapter do what they say, under every broker.

/// One example as a module; its `main` is for people.
macro_rules! example {
    ($name:ident, $file:literal) => {
        #[allow(dead_code, reason = "its `main` is for people")]
        #[path = $file]
        mod $name;
    };
}

example!(control_plane, "../../../adapters/nolag/examples/control_plane.rs");
example!(on_async_std, "../../../adapters/nolag/examples/async_std.rs");
example!(on_smol, "../../../adapters/nolag/examples/smol.rs");
example!(on_threads, "../../../adapters/nolag/examples/blocking.rs");
example!(on_tokio, "../../../adapters/nolag/examples/tokio.rs");

use nolag::{ApiOptions, NoLagApi, api::ListParams};
use nolag_broker::{AuthConfig, BlockingTestBroker, Profile, TestBroker};

const READ: [&str; 3] = ["hello", "how are you?", "bye"];

/// Runs an example against each broker.
fn with_every_broker(run: impl Fn(&str) -> Vec<String>) {
    for profile in Profile::ALL {
        let broker = TestBroker::builder().profile(profile).auth(AuthConfig::seed_world());
        let broker = BlockingTestBroker::start_with(broker);
        assert_eq!(run(&broker.url()), READ, "{profile:?}");
    }
}

#[test]
fn two_people_chat_on_tokio() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    with_every_broker(|url| runtime.block_on(on_tokio::run(url)).unwrap());
}

#[test]
fn two_people_chat_on_smol() {
    with_every_broker(|url| smol::block_on(on_smol::run(url)).unwrap());
}

#[test]
fn two_people_chat_on_async_std() {
    with_every_broker(|url| async_std::task::block_on(on_async_std::run(url)).unwrap());
}

#[test]
fn two_people_chat_on_threads() {
    with_every_broker(|url| on_threads::run(url).unwrap());
}

#[test]
fn an_api_key_is_enough_for_a_conversation_and_nothing_stays_behind() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for profile in Profile::ALL {
        let key = "nlg_live_mine.secret";
        let broker = TestBroker::builder().profile(profile).auth(AuthConfig::seed_world()).api_key(key);
        let broker = BlockingTestBroker::start_with(broker);
        let read = runtime.block_on(control_plane::run(&broker.api_url(), &broker.url(), key)).unwrap();
        assert_eq!(read, READ, "{profile:?}");
        // As people would look: by the lists.
        let api = NoLagApi::new(key, ApiOptions::new(broker.api_url()));
        let (apps, actors) = runtime.block_on(async {
            let params = ListParams::new();
            (api.apps().list(&params).await.unwrap(), api.actors().list(&params).await.unwrap())
        });
        let slugs: Vec<&str> = apps.data.iter().map(|app| app.slug.as_str()).collect();
        assert_eq!((slugs, actors.data.len()), (vec!["demo"], 0), "{profile:?}");
    }
}
