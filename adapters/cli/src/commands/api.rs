//! `nolag api`: the REST control plane.

use std::fs;

use nolag::{
    ApiOptions, NoLagApi,
    api::{
        self, ActorCreate, ActorUpdate, ActorWithToken, ApiCall, AppCreate, AppUpdate, BatchMessage,
        ListParams, Pages, Patch, RoomAccessCreate, RoomCreate, RoomUpdate, ScopeCreate, ScopeUpdate,
        SortOrder, Value, Webhook,
    },
};
use serde::Serialize;

use crate::{
    args::api::{
        ActorCreateArgs, ActorUpdateArgs, ActorsCommand, ApiArgs, ApiCommand, ApiPublishArgs, AppCreateArgs,
        AppUpdateArgs, AppsCommand, GrantArgs, ListArgs, RoomCreateArgs, RoomUpdateArgs, RoomsCommand,
        ScopeUpdateArgs, ScopesCommand,
    },
    connection::{interrupted, shown},
    exit::{Exit, Failure, Outcome},
    input::Source,
    output::{Output, say},
    secrets,
    signals::Interrupts,
    table::{self, Row},
};

/// Entries that are asked for at a time; control planes take no more.
const PAGE: u64 = 100;

/// What JSON says of something that is gone.
#[derive(Serialize)]
struct Deleted<'a> {
    deleted: &'a str,
}

/// A new actor. Only here its token is in an output.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CreatedActor<'a> {
    #[serde(flatten)]
    actor: &'a api::Actor,
    access_token: &'a str,
}

pub(crate) async fn run(args: ApiArgs) -> Outcome {
    let mut interrupts = Interrupts::listen(|| "left at once".into())?;
    let asking = async {
        let session = Session::new(&args)?;
        match args.command {
            ApiCommand::Apps(command) => session.apps(command).await,
            ApiCommand::Rooms(command) => session.rooms(command).await,
            ApiCommand::Actors(command) => session.actors(command).await,
            ApiCommand::Scopes(command) => session.scopes(command).await,
            ApiCommand::Publish(args) => session.publish(args).await,
        }
    };
    tokio::select! {
        biased;
        () = interrupts.first() => Err(interrupted("interrupted; what was asked may have been done or not")),
        asked = asking => asked.map(|()| Exit::Done),
    }
}

/// A client, and where its answers go.
struct Session {
    api: NoLagApi,
    output: Output,
    /// The server's address without what may hold a secret.
    url: String,
    /// The option that gives it.
    option: &'static str,
}

impl Session {
    fn new(args: &ApiArgs) -> Result<Self, Failure> {
        let server = &args.server;
        let key = secrets::api_key(server.key_file.as_deref())?;
        let mut options = ApiOptions::new(&server.api_url);
        let (mut url, mut option) = (server.api_url.as_str(), "--api-url");
        if let ApiCommand::Publish(publish) = &args.command {
            (url, option) = (publish.url.as_deref().unwrap_or(nolag::CLOUD_URL), "--url");
            // The key of one's own server is nothing for the cloud to see.
            if publish.url.is_none() && server.api_url != api::CLOUD_URL {
                return Err(Failure::usage(
                    "messages go to the broker, not to --api-url; give its address with --url or NOLAG_URL",
                ));
            }
            options = options.broker_url(url);
        }
        let api = NoLagApi::new(key, options);
        Ok(Self { api, output: Output::new(server.json), url: shown(url).into(), option })
    }

    async fn apps(&self, command: AppsCommand) -> Result<(), Failure> {
        let apps = self.api.apps();
        match command {
            AppsCommand::List(list) => self.list(&list, Some(PAGE), |params| apps.pages(params)).await,
            AppsCommand::Get(app) => self.show(apps.get(&app.app_id)).await,
            AppsCommand::Create(create) => self.show(apps.create(&app_create(&create)?)).await,
            AppsCommand::Update { app, change } => {
                self.show(apps.update(&app.app_id, &app_update(&change)?)).await
            }
            AppsCommand::Delete(app) => self.delete(&app.app_id, apps.delete(&app.app_id)).await,
            AppsCommand::ResetToBlueprint(app) => self.show(apps.reset_to_blueprint(&app.app_id)).await,
        }
    }

    async fn rooms(&self, command: RoomsCommand) -> Result<(), Failure> {
        let rooms = self.api.rooms();
        match command {
            RoomsCommand::List { app, list } => {
                self.list(&list, None, |params| rooms.pages(&app.app_id, params)).await
            }
            RoomsCommand::Get(room) => self.show(rooms.get(&room.app_id, &room.room_id)).await,
            RoomsCommand::Create { app, room } => {
                self.show(rooms.create(&app.app_id, &room_create(&room)?)).await
            }
            RoomsCommand::Ensure { app, room } => {
                self.show(rooms.ensure(&app.app_id, &room_create(&room)?)).await
            }
            RoomsCommand::Update { room, change } => {
                self.show(rooms.update(&room.app_id, &room.room_id, &room_update(&change)?)).await
            }
            RoomsCommand::Delete(room) => {
                self.delete(&room.room_id, rooms.delete(&room.app_id, &room.room_id)).await
            }
            RoomsCommand::Grant { room, grant } => {
                self.show(rooms.grant_access(&room.app_id, &room.room_id, &access_create(&grant)?)).await
            }
            RoomsCommand::Access { room, list } => {
                self.list(&list, None, |params| rooms.access_pages(&room.app_id, &room.room_id, params)).await
            }
            RoomsCommand::Revoke { room, access_id } => {
                self.delete(&access_id, rooms.revoke_access(&room.app_id, &room.room_id, &access_id)).await
            }
        }
    }

    async fn actors(&self, command: ActorsCommand) -> Result<(), Failure> {
        let actors = self.api.actors();
        match command {
            ActorsCommand::List(list) => self.list(&list, None, |params| actors.pages(params)).await,
            ActorsCommand::Get(actor) => self.show(actors.get(&actor.actor_id)).await,
            ActorsCommand::Create(create) => {
                let created = self.ask(actors.create(&actor_create(&create)?)).await?;
                self.show_created(&created)
            }
            ActorsCommand::Update { actor, change } => {
                self.show(actors.update(&actor.actor_id, &actor_update(&change)?)).await
            }
            ActorsCommand::Delete(actor) => {
                self.delete(&actor.actor_id, actors.delete(&actor.actor_id)).await
            }
        }
    }

    async fn scopes(&self, command: ScopesCommand) -> Result<(), Failure> {
        let scopes = self.api.scopes();
        match command {
            ScopesCommand::List(list) => self.list(&list, Some(PAGE), |params| scopes.pages(params)).await,
            ScopesCommand::Get(scope) => self.show(scopes.get(&scope.scope_id)).await,
            ScopesCommand::Create(create) => {
                let mut scope = ScopeCreate::new(create.slug, create.name);
                scope = with(scope, create.description, ScopeCreate::description);
                scope = with(scope, json("--metadata", create.metadata.as_ref())?, ScopeCreate::metadata);
                self.show(scopes.create(&scope)).await
            }
            ScopesCommand::Update { scope, change } => {
                self.show(scopes.update(&scope.scope_id, &scope_update(&change)?)).await
            }
            ScopesCommand::Delete(scope) => {
                self.delete(&scope.scope_id, scopes.delete(&scope.scope_id)).await
            }
            ScopesCommand::Actors { scope, list } => {
                self.list(&list, None, |params| scopes.actor_pages(&scope.scope_id, params)).await
            }
            ScopesCommand::AddActor { scope, actor } => {
                self.show(scopes.add_actor(&scope.scope_id, &actor.actor_id)).await
            }
            ScopesCommand::RemoveActor(actor) => self.show(scopes.remove_actor(&actor.actor_id)).await,
        }
    }

    async fn publish(&self, args: ApiPublishArgs) -> Result<(), Failure> {
        let parts: Vec<&str> = args.topic.split('/').collect();
        let [app, room, topic] = parts[..] else {
            return Err(Failure::usage(format!(
                "where to publish is APP_ID/ROOM_ID/TOPIC, three parts, not {:?}",
                args.topic
            )));
        };
        let texts = match args.data.as_slice() {
            [dash] if dash == "-" => {
                let text = String::from_utf8(Source::Stdin.whole().await?);
                vec![text.map_err(|_| Failure::data("the data is not UTF-8"))?]
            }
            _ => args.data.clone(),
        };
        let mut messages = Vec::new();
        for (index, text) in texts.iter().enumerate() {
            let data: Value = serde_json::from_str(text).map_err(|error| {
                let which = if texts.len() > 1 { format!("message {}: ", index + 1) } else { String::new() };
                Failure::data(format!(
                    "{which}not valid JSON: {error}; a text is in quotes, as in '\"hello\"'"
                ))
            })?;
            let mut message = BatchMessage::new(app, room, topic, data);
            message = with(message, args.scope.as_ref(), BatchMessage::scope_id);
            message = with(message, args.qos, |message, qos| message.qos(qos));
            message = match &args.filter {
                Some(group) if group.contains('+') => message.filters(group.split('+')),
                Some(filter) => message.filter(filter),
                None => message,
            };
            messages.push(if args.retain { message.retain(true) } else { message });
        }
        let ids = self.ask(self.api.publish(&messages)).await?;
        match self.output.is_json() {
            true => self.output.json(&ids),
            false => ids.iter().try_for_each(|id| self.output.line(format_args!("published {id}"))),
        }
    }

    async fn ask<T>(&self, call: ApiCall<T>) -> Result<T, Failure> {
        call.await.map_err(|error| Failure::api(&error, &self.url, self.option))
    }

    /// Shows the object that is the answer.
    async fn show<T: Serialize>(&self, call: ApiCall<T>) -> Result<(), Failure> {
        self.object(&self.ask(call).await?)
    }

    fn object(&self, object: &impl Serialize) -> Result<(), Failure> {
        if self.output.is_json() {
            return self.output.json(object);
        }
        let lines = table::fields(&self.output.to_json(object)?);
        self.output.line(lines.map_err(|error| Failure::new(Exit::Internal, error.to_string()))?)
    }

    fn show_created(&self, created: &ActorWithToken) -> Result<(), Failure> {
        let id = &created.actor.actor_token_id;
        let shown =
            self.object(&CreatedActor { actor: &created.actor, access_token: created.access_token.expose() });
        // Even if nobody reads it any more: nobody has the token.
        shown.map_err(|_| {
            let fault = "was created, but its token could not be written; delete it and create another";
            Failure::new(Exit::Internal, format!("actor {id} {fault}"))
        })?;
        say("the accessToken is not shown again: keep it now, as a secret");
        Ok(())
    }

    async fn delete(&self, id: &str, call: ApiCall<()>) -> Result<(), Failure> {
        self.ask(call).await?;
        match self.output.is_json() {
            true => self.output.json(&Deleted { deleted: id }),
            false => self.output.line(format_args!("deleted {id}")),
        }
    }

    /// Shows a list. `page_size` is for servers that page this list as documented; others may know no such parameter.
    async fn list<T>(
        &self,
        args: &ListArgs,
        page_size: Option<u64>,
        pages: impl FnOnce(ListParams) -> Pages<T>,
    ) -> Result<(), Failure>
    where
        T: Row + Serialize + Send + 'static,
    {
        let limit = args.limit.map(u64::from);
        let mut params = list_params(args)?;
        let size =
            if args.page.is_some() { limit } else { page_size.map(|size| size.min(limit.unwrap_or(size))) };
        params = with(params, size, ListParams::limit);
        params = with(params, args.page.map(u64::from), ListParams::page);

        let most = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        let (mut entries, mut total) = (Vec::new(), 0);
        let mut pages = pages(params);
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| Failure::api(&error, &self.url, self.option))?;
            total = page.pagination.total;
            // A server that does not page this list answers with all of it.
            let skipped = match args.page.map(u64::from) {
                Some(asked) if asked != page.pagination.page => {
                    (asked - 1).saturating_mul(limit.unwrap_or(u64::MAX))
                }
                _ => 0,
            };
            entries.extend(page.data.into_iter().skip(usize::try_from(skipped).unwrap_or(usize::MAX)));
            if args.page.is_some() || entries.len() >= most {
                break;
            }
        }
        entries.truncate(most);
        if self.output.is_json() {
            return self.output.json(&entries);
        }
        if !entries.is_empty() {
            self.output.line(table::table(&entries))?;
        }
        let count = u64::try_from(entries.len()).unwrap_or(u64::MAX);
        if count < total {
            say(format_args!("{count} of {total}; --limit and --page choose"));
        } else if count == 0 {
            say("there are none");
        }
        Ok(())
    }
}

fn list_params(args: &ListArgs) -> Result<ListParams, Failure> {
    let mut params = ListParams::new();
    for order in &args.order_by {
        let (field, way) = order.split_once(':').unwrap_or((order, "asc"));
        let way = match way {
            _ if way.eq_ignore_ascii_case("asc") => SortOrder::Asc,
            _ if way.eq_ignore_ascii_case("desc") => SortOrder::Desc,
            _ => return Err(Failure::usage(format!("--order-by {order:?} ends in neither :asc nor :desc"))),
        };
        params = params.order_by(field, way);
    }
    params = with(params, args.name.as_ref(), ListParams::name);
    params = with(params, args.status.as_deref(), ListParams::status);
    params = with(params, args.search.as_ref(), ListParams::search);
    for field in &args.fields {
        let (name, value) = field
            .split_once('=')
            .ok_or_else(|| Failure::usage(format!("--where {field:?} is not FIELD=VALUE")))?;
        params = params.set(name, value);
    }
    Ok(params)
}

fn app_create(args: &AppCreateArgs) -> Result<AppCreate, Failure> {
    let mut app = AppCreate::new(&args.name);
    app = with(app, args.slug.as_ref(), AppCreate::slug);
    app = with(app, args.description.as_ref(), AppCreate::description);
    app = with(app, several(&args.topic), AppCreate::topics);
    app = with(app, args.access_mode.as_deref(), AppCreate::access_mode);
    app = with(app, args.blueprint_id.as_ref(), AppCreate::blueprint_id);
    app = with(app, args.blueprint_version.as_ref(), AppCreate::blueprint_version);
    app = with(app, json("--config", args.config.as_ref())?, AppCreate::config);
    app = with(app, json("--topic-configs", args.topic_configs.as_ref())?, AppCreate::topic_configs);
    let hydration = webhook("--hydration-webhook", args.hydration_webhook.as_ref())?;
    app = with(app, hydration, AppCreate::hydration_webhook);
    let trigger = webhook("--trigger-webhook", args.trigger_webhook.as_ref())?;
    Ok(with(app, trigger, AppCreate::trigger_webhook))
}

fn app_update(args: &AppUpdateArgs) -> Result<AppUpdate, Failure> {
    let clear = |field, value| patch(&args.clear, field, value);
    let mut app = AppUpdate::new().description(clear("description", args.description.clone())?);
    app = with(app, args.name.as_ref(), AppUpdate::name);
    app = with(app, args.status.as_deref(), AppUpdate::status);
    app = with(app, args.access_mode.as_deref(), AppUpdate::access_mode);
    app = with(app, several(&args.topic), AppUpdate::topics);
    app = with(app, json("--config", args.config.as_ref())?, AppUpdate::config);
    app = with(app, json("--files", args.files.as_ref())?, AppUpdate::files);
    let topic_configs = json("--topic-configs", args.topic_configs.as_ref())?;
    app = with(app, or_null(&args.clear, "topic-configs", topic_configs)?, AppUpdate::topic_configs);
    app = app
        .pinned_blueprint_version(clear("pinned-blueprint-version", args.pinned_blueprint_version.clone())?);
    let hydration = webhook("--hydration-webhook", args.hydration_webhook.as_ref())?;
    app = app.hydration_webhook(patch(&args.clear, "hydration-webhook", hydration)?);
    let trigger = webhook("--trigger-webhook", args.trigger_webhook.as_ref())?;
    Ok(app.trigger_webhook(patch(&args.clear, "trigger-webhook", trigger)?))
}

fn room_create(args: &RoomCreateArgs) -> Result<RoomCreate, Failure> {
    let mut room = RoomCreate::new(&args.name);
    room = with(room, args.slug.as_ref(), RoomCreate::slug);
    room = with(room, args.description.as_ref(), RoomCreate::description);
    room = with(room, several(&args.topic), RoomCreate::topics);
    room = with(room, json("--metadata", args.metadata.as_ref())?, RoomCreate::metadata);
    room = with(room, json("--config", args.config.as_ref())?, RoomCreate::config);
    Ok(if args.enable_webrtc { room.enable_webrtc(true) } else { room })
}

fn room_update(args: &RoomUpdateArgs) -> Result<RoomUpdate, Failure> {
    let description = patch(&args.clear, "description", args.description.clone())?;
    let mut room = RoomUpdate::new().description(description);
    room = with(room, args.name.as_ref(), RoomUpdate::name);
    room = with(room, args.status.as_deref(), RoomUpdate::status);
    room = with(room, args.enabled, RoomUpdate::is_enabled);
    room = with(room, several(&args.topic), RoomUpdate::topics);
    room = with(room, json("--metadata", args.metadata.as_ref())?, RoomUpdate::metadata);
    Ok(with(room, json("--config", args.config.as_ref())?, RoomUpdate::config))
}

fn access_create(args: &GrantArgs) -> Result<RoomAccessCreate, Failure> {
    let permission = args.permission.as_str();
    let mut access = match (&args.to.actor, &args.to.actor_type) {
        (Some(actor), _) => RoomAccessCreate::to_actor(actor, permission),
        (None, Some(actor_type)) => RoomAccessCreate::to_type(actor_type.as_str(), permission),
        (None, None) => return Err(Failure::usage("to whom? --actor or --type says it")),
    };
    access = with(access, several(&args.topic), RoomAccessCreate::topics);
    access = with(access, args.expires_at.as_ref(), RoomAccessCreate::expires_at);
    access = with(access, args.role.as_ref(), RoomAccessCreate::role);
    access = with(access, json("--metadata", args.metadata.as_ref())?, RoomAccessCreate::metadata);
    Ok(if args.inactive { access.is_active(false) } else { access })
}

fn actor_create(args: &ActorCreateArgs) -> Result<ActorCreate, Failure> {
    let mut actor = ActorCreate::new(&args.name, args.actor_type.as_str());
    actor = with(actor, args.description.as_ref(), ActorCreate::description);
    actor = with(actor, args.external_id.as_ref(), ActorCreate::external_id);
    actor = with(actor, json("--metadata", args.metadata.as_ref())?, ActorCreate::metadata);
    actor = with(actor, args.scope.as_ref(), ActorCreate::access_scope_id);
    Ok(with(actor, args.expires_at.as_ref(), ActorCreate::expires_at))
}

fn actor_update(args: &ActorUpdateArgs) -> Result<ActorUpdate, Failure> {
    let clear = |field, value: &Option<String>| patch(&args.clear, field, value.clone());
    let mut actor = ActorUpdate::new()
        .description(clear("description", &args.description)?)
        .external_id(clear("external-id", &args.external_id)?)
        .expires_at(clear("expires-at", &args.expires_at)?)
        .access_scope_id(clear("scope", &args.scope)?);
    actor = with(actor, args.name.as_ref(), ActorUpdate::name);
    actor = with(actor, args.status.as_deref(), ActorUpdate::status);
    actor = with(actor, args.active, ActorUpdate::is_active);
    let metadata = or_null(&args.clear, "metadata", json("--metadata", args.metadata.as_ref())?)?;
    Ok(with(actor, metadata, ActorUpdate::metadata))
}

fn scope_update(args: &ScopeUpdateArgs) -> Result<ScopeUpdate, Failure> {
    let description = patch(&args.clear, "description", args.description.clone())?;
    let mut scope = ScopeUpdate::new().description(description);
    scope = with(scope, args.name.as_ref(), ScopeUpdate::name);
    scope = with(scope, args.active, ScopeUpdate::is_active);
    let metadata = or_null(&args.clear, "metadata", json("--metadata", args.metadata.as_ref())?)?;
    Ok(with(scope, metadata, ScopeUpdate::metadata))
}

/// Sets a field, if it was given.
fn with<B, T>(body: B, value: Option<T>, set: impl FnOnce(B, T) -> B) -> B {
    match value {
        Some(value) => set(body, value),
        None => body,
    }
}

/// The values of an option that can be given several times, if it was given.
fn several(values: &[String]) -> Option<&[String]> {
    (!values.is_empty()).then_some(values)
}

/// What an update does to a field that can be emptied with `--clear`.
fn patch<T>(clear: &[String], field: &str, value: Option<T>) -> Result<Patch<T>, Failure> {
    match (clear.iter().any(|cleared| cleared == field), value) {
        (true, Some(_)) => {
            Err(Failure::usage(format!("--clear {field} and --{field} contradict each other")))
        }
        (true, None) => Ok(Patch::Null),
        (false, Some(value)) => Ok(Patch::Set(value)),
        (false, None) => Ok(Patch::Keep),
    }
}

/// The same for JSON, where `null` is a value.
fn or_null(clear: &[String], field: &str, value: Option<Value>) -> Result<Option<Value>, Failure> {
    Ok(match patch(clear, field, value)? {
        Patch::Keep => None,
        Patch::Null => Some(Value::Null),
        Patch::Set(value) => Some(value),
    })
}

/// The JSON of an option, which may name a file. Errors do not repeat it.
fn json(option: &str, text: Option<&String>) -> Result<Option<Value>, Failure> {
    let Some(text) = text else { return Ok(None) };
    let bad = |error| Failure::data(format!("{option}: not valid JSON: {error}"));
    match text.strip_prefix('@') {
        Some(path) => serde_json::from_str(&read(option, path)?).map_err(bad).map(Some),
        None => serde_json::from_str(text).map_err(bad).map(Some),
    }
}

/// A webhook: a URL, or a file with that and headers. Those may be secrets, so they are not taken from the command line.
fn webhook(option: &str, text: Option<&String>) -> Result<Option<Webhook>, Failure> {
    let Some(text) = text else { return Ok(None) };
    let Some(path) = text.strip_prefix('@') else { return Ok(Some(Webhook::new(text))) };
    // The error of serde would quote what is wrong.
    let read = serde_json::from_str(&read(option, path)?);
    read.map(Some).map_err(|error| {
        Failure::data(format!(
            "{option}: line {} of {path} is not {{\"url\":…,\"headers\":{{…}}}} with texts",
            error.line()
        ))
    })
}

fn read(option: &str, path: &str) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| Failure::data(format!("{option}: cannot read {path}: {error}")))
}
