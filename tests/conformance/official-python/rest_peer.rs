//! Our half of the comparison with the official Python client: `rest_peer API_URL API_KEY`.
//!
//! Makes the calls that `requests` in `rest.py` makes, in the same order and with the same values, to a server that
//! takes everything. `rest.sh` runs both halves.

use std::{env, error::Error};

use nolag::{
    ApiOptions, NoLagApi, NoLagApiError,
    api::{
        ActorCreate, ActorUpdate, AppCreate, AppUpdate, ListParams, RoomAccessCreate, RoomCreate, RoomUpdate,
        ScopeCreate, ScopeUpdate, SortOrder, Webhook, json,
    },
};

const TIME: &str = "2030-01-01T00:00:00Z";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let mut argument = || args.next().ok_or("usage: rest_peer API_URL API_KEY");
    let (url, key) = (argument()?, argument()?);
    let api = NoLagApi::new(key, ApiOptions::new(url).retries(0));
    apps(&api).await?;
    rooms(&api).await?;
    actors(&api).await?;
    scopes(&api).await?;
    Ok(())
}

/// Every parameter of the official client's lists.
fn page() -> ListParams {
    ListParams::new().page(2).limit(5).sort_by("name", SortOrder::Desc).search("grüße & more")
}

async fn apps(api: &NoLagApi) -> Result<(), NoLagApiError> {
    let apps = api.apps();
    apps.list(&ListParams::new()).await?;
    apps.list(&page()).await?;
    apps.list(&ListParams::new().order_by("name", SortOrder::Asc)).await?;
    apps.get("a1").await?;
    apps.get("a/1").await?;
    apps.create(&AppCreate::new("chat")).await?;
    let everything = AppCreate::new("Grüße ✓")
        .slug("chat")
        .description("A chat")
        .blueprint_id("b1")
        .blueprint_version("2")
        .config(json!({"autoProvisionRooms": true, "depth": {"list": [1, 2.5, null]}}))
        .topics(["messages", "jobs"])
        .topic_configs(json!({"jobs": {"qos": 1}}))
        .hydration_webhook(Webhook::new("https://example.com/h").header("X-Key", "k"))
        .trigger_webhook(Webhook::new("https://example.com/t"));
    apps.create(&everything).await?;
    apps.create(&AppCreate::new("chat").description("").topics([""; 0]).config(json!({}))).await?;
    apps.update("a1", &AppUpdate::new().name("talk")).await?;
    apps.update("a1", &AppUpdate::new().name("talk").description("").config(json!({}))).await?;
    // Nothing to set the slug with.
    apps.update("a1", &AppUpdate::new().name("talk")).await?;
    apps.update("a1", &AppUpdate::new()).await?;
    apps.reset_to_blueprint("a1").await?;
    apps.delete("a1").await
}

async fn rooms(api: &NoLagApi) -> Result<(), NoLagApiError> {
    let rooms = api.rooms();
    rooms.list("a1", &ListParams::new()).await?;
    rooms.get("a1", "r1").await?;
    rooms.create("a1", &RoomCreate::new("General")).await?;
    let everything = RoomCreate::new("General")
        .slug("general")
        .description("For all")
        .topics(["messages"])
        .config(json!({"floor": 2}));
    rooms.create("a1", &everything).await?;
    rooms.ensure("a1", &everything).await?;
    rooms.update("a1", "r1", &RoomUpdate::new().is_enabled(false)).await?;
    let everything =
        RoomUpdate::new().name("Lobby").description("").is_enabled(true).topics([""; 0]).config(json!({}));
    rooms.update("a1", "r1", &everything).await?;
    rooms.delete("a1", "r1").await?;
    rooms.grant_access("a1", "r1", &RoomAccessCreate::to_actor("t1", "pubSub")).await?;
    let everything = RoomAccessCreate::to_type("observer", "subscribe")
        .topics([""; 0])
        .is_active(false)
        .expires_at(TIME)
        .role("guest")
        .metadata(json!({"by": "me"}));
    rooms.grant_access("a1", "r1", &everything).await?;
    rooms.list_access("a1", "r1", &ListParams::new()).await?;
    rooms.revoke_access("a1", "r1", "g1").await
}

async fn actors(api: &NoLagApi) -> Result<(), NoLagApiError> {
    let actors = api.actors();
    actors.list(&ListParams::new()).await?;
    actors.get("t1").await?;
    actors.create(&ActorCreate::new("web", "device")).await?;
    let everything = ActorCreate::new("web", "orchestrator")
        .description("In browsers")
        .external_id("42")
        .metadata(json!({"platform": "web"}));
    actors.create(&everything).await?;
    actors.update("t1", &ActorUpdate::new().is_active(false)).await?;
    let everything = ActorUpdate::new()
        .name("phone")
        .description("")
        .external_id("43")
        .metadata(json!({}))
        .is_active(true)
        .access_scope_id("s1");
    actors.update("t1", &everything).await?;
    actors.delete("t1").await
}

async fn scopes(api: &NoLagApi) -> Result<(), NoLagApiError> {
    let scopes = api.scopes();
    scopes.list(&ListParams::new()).await?;
    scopes.list(&page()).await?;
    scopes.get("s1").await?;
    scopes.create(&ScopeCreate::new("acme", "Acme")).await?;
    let everything =
        ScopeCreate::new("acme", "Acme").description("A tenant").metadata(json!({"plan": "big"}));
    scopes.create(&everything).await?;
    let everything = ScopeUpdate::new().name("Acme Inc").description("").metadata(json!({})).is_active(false);
    scopes.update("s1", &everything).await?;
    scopes.list_actors("s1", &ListParams::new()).await?;
    scopes.add_actor("s1", "t1").await?;
    scopes.remove_actor("t1").await?;
    scopes.delete("s1").await
}
