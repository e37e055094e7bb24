//! Lists, page by page.

use nolag::{
    NoLagApiError, Runtime,
    api::{ListParams, Page, Pages},
};

use crate::{
    Server, Step, api, on_every_runtime,
    runtimes::{drive, soon},
};

type Answers<T> = Vec<Result<Page<T>, NoLagApiError>>;

/// All that a list gives.
fn all<T: Send + 'static>(runtime: Runtime, mut pages: Pages<T>) -> Answers<T> {
    soon(move || match runtime {
        #[cfg(feature = "blocking")]
        Runtime::Blocking => pages.iter().collect(),
        _ => drive(runtime, async {
            let mut answers = Vec::new();
            while let Some(answer) = pages.next().await {
                answers.push(answer);
            }
            assert!(pages.next().await.is_none());
            answers
        }),
    })
}

fn page(ids: &[&str], page: u32, of: u32) -> Step {
    let apps: Vec<String> = ids.iter().map(|id| format!(r#"{{"appId":"{id}"}}"#)).collect();
    let pagination = format!(r#"{{"total":5,"page":{page},"pageCount":{of}}}"#);
    Step::json(200, format!(r#"{{"data":[{}],"pagination":{pagination}}}"#, apps.join(",")))
}

#[test]
fn pages_come_in_order_and_end() {
    on_every_runtime(|runtime| {
        let server = Server::start([page(&["a", "b"], 1, 3), page(&["c", "d"], 2, 3), page(&["e"], 3, 3)]);
        let pages = api(&server, runtime).apps().pages(ListParams::new().limit(2).name("x"));
        let answers = all(runtime, pages);
        let ids: Vec<String> =
            answers.into_iter().flat_map(|page| page.unwrap().data).map(|app| app.app_id).collect();
        assert_eq!(ids, ["a", "b", "c", "d", "e"], "{runtime:?}");
        let asked = ["limit=2&name=x", "limit=2&name=x&page=2", "limit=2&name=x&page=3"];
        assert_eq!(server.lines(), asked.map(|query| format!("GET /v1/apps?{query}")));
    });
}

#[test]
fn a_failing_page_is_tried_again_and_then_ends_the_list() {
    on_every_runtime(|runtime| {
        let steps = [page(&["a"], 1, 3), Step::html(503), page(&["b"], 2, 3), Step::json(404, "{}")];
        let server = Server::start(steps);
        let answers = all(runtime, api(&server, runtime).apps().pages(ListParams::new()));
        let outcomes: Vec<_> = answers
            .iter()
            .map(|answer| {
                answer.as_ref().map(|page| page.data[0].app_id.as_str()).map_err(NoLagApiError::status)
            })
            .collect();
        assert_eq!(outcomes, [Ok("a"), Ok("b"), Err(Some(404))], "{runtime:?}");
        assert_eq!(server.heard().len(), 4);
    });
}

#[test]
fn other_lists_have_pages_too() {
    on_every_runtime(|runtime| {
        let server = Server::start(std::iter::repeat_n(Step::json(200, "[]"), 5));
        let api = api(&server, runtime);
        let params = ListParams::new;
        assert_eq!(all(runtime, api.rooms().pages("a1", params())).len(), 1);
        assert_eq!(all(runtime, api.rooms().access_pages("a1", "r1", params())).len(), 1);
        assert_eq!(all(runtime, api.actors().pages(params())).len(), 1);
        assert_eq!(all(runtime, api.scopes().pages(params())).len(), 1);
        assert_eq!(all(runtime, api.scopes().actor_pages("s1", params())).len(), 1);
        let paths = ["apps/a1/rooms", "apps/a1/rooms/r1/actors", "actors", "scopes", "scopes/s1/actors"];
        assert_eq!(server.lines(), paths.map(|path| format!("GET /v1/{path}")));
    });
}

#[test]
fn no_server_makes_a_list_endless() {
    on_every_runtime(|runtime| {
        // It ignores which page is asked for.
        let server = Server::start(std::iter::repeat_n(page(&["a", "b"], 1, 3), 10));
        let answers = all(runtime, api(&server, runtime).apps().pages(ListParams::new()));
        let words: Vec<_> =
            answers.iter().map(|answer| answer.as_ref().err().map(ToString::to_string)).collect();
        let end = "GET /apps succeeded (HTTP 200), but its answer cannot be read: \
                   page 2 of 3 has the entries of the page before";
        assert_eq!(words, [None, Some(end.to_owned())], "{runtime:?}");
        assert_eq!(server.heard().len(), 2);

        // It counts ever more of them.
        let server = Server::start((1..300).map(|n| page(&[&n.to_string()], n, n + 1)));
        let answers = all(runtime, api(&server, runtime).apps().pages(ListParams::new()));
        assert!(matches!(answers.last(), Some(Err(NoLagApiError::Decode { .. }))), "{runtime:?}");
        assert_eq!((answers.len(), server.heard().len()), (105, 105), "{runtime:?}");
    });
}

#[test]
fn a_server_that_does_not_count_pages_is_read_to_the_end() {
    on_every_runtime(|runtime| {
        let page = |body: &str| Step::json(200, format!(r#"{{"data":[{body}],"pagination":{{"total":3}}}}"#));
        let server = Server::start([page(r#"{"appId":"a"},{"appId":"b"}"#), page(r#"{"appId":"c"}"#)]);
        let answers = all(runtime, api(&server, runtime).apps().pages(ListParams::new().limit(2)));
        assert_eq!(answers.iter().flat_map(|page| &page.as_ref().unwrap().data).count(), 3, "{runtime:?}");
        assert_eq!(server.heard().len(), 2);

        // It does not page at all.
        let server = Server::start(std::iter::repeat_n(page(r#"{"appId":"a"}"#), 10));
        let answers = all(runtime, api(&server, runtime).apps().pages(ListParams::new()));
        assert_eq!((answers.len(), server.heard().len()), (1, 2), "{runtime:?}");
    });
}
