//! The command line of `nolag api`.

use std::{num::NonZeroU64, path::PathBuf};

use clap::{Args, Subcommand};
use nolag::{QoS, api};

use super::{help, qos};

/// What the control plane is asked.
#[derive(Debug, Args)]
pub(crate) struct ApiArgs {
    #[command(flatten)]
    pub(crate) server: ApiServerArgs,
    #[command(subcommand)]
    pub(crate) command: ApiCommand,
}

/// Which control plane, and with which key. Options win over the environment.
#[derive(Debug, Args)]
pub(crate) struct ApiServerArgs {
    /// The control plane's address with its path, http:// or https:// [default: the NoLag cloud,
    /// https://api.nolag.app/v1]
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "NOLAG_API_URL",
        hide_env_values = true,
        default_value = api::CLOUD_URL,
        hide_default_value = true
    )]
    pub(crate) api_url: String,
    /// A file that holds the project's API key and nothing else [env: NOLAG_API_KEY, the key itself]
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) key_file: Option<PathBuf>,
    /// Prints JSON on one line: an object as the server has it, a list as an array
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ApiCommand {
    /// What rooms and topics belong to
    #[command(subcommand)]
    Apps(AppsCommand),
    /// Rooms of an app, and who may enter them
    #[command(subcommand)]
    Rooms(RoomsCommand),
    /// Who may connect, and the tokens they connect with
    #[command(subcommand)]
    Actors(ActorsCommand),
    /// Tenants that are kept apart within the project
    #[command(subcommand)]
    Scopes(ScopesCommand),
    /// Publishes messages over HTTP, through the broker and without a connection; prints their ids
    ///
    /// They are published in order, or none of them if one is refused. Subscribers see the server as their sender. The
    /// broker has to be Kraken 0.10 or newer, or the cloud.
    #[command(after_help = help(PUBLISH_EXAMPLES))]
    Publish(ApiPublishArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum AppsCommand {
    /// Lists the project's apps
    List(ListArgs),
    /// Shows one app
    Get(AppId),
    /// Creates an app; its slug may get a random suffix, so use the one that is shown
    Create(AppCreateArgs),
    /// Changes an app
    Update {
        #[command(flatten)]
        app: AppId,
        #[command(flatten)]
        change: AppUpdateArgs,
    },
    /// Deletes an app
    Delete(AppId),
    /// Sets an app's configuration back to that of the blueprint it was made from
    ResetToBlueprint(AppId),
}

#[derive(Debug, Subcommand)]
pub(crate) enum RoomsCommand {
    /// Lists an app's rooms
    List {
        #[command(flatten)]
        app: AppId,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Shows one room
    Get(RoomPath),
    /// Creates a room
    Create {
        #[command(flatten)]
        app: AppId,
        #[command(flatten)]
        room: RoomCreateArgs,
    },
    /// Creates a room unless there is one of that slug, which is then shown unchanged
    ///
    /// The server refuses it unless the app's configuration says {"autoProvisionRooms":true}.
    Ensure {
        #[command(flatten)]
        app: AppId,
        #[command(flatten)]
        room: RoomCreateArgs,
    },
    /// Changes a room
    Update {
        #[command(flatten)]
        room: RoomPath,
        #[command(flatten)]
        change: RoomUpdateArgs,
    },
    /// Deletes a room
    Delete(RoomPath),
    /// Lets an actor, or all actors of a type, into a room; the first grant keeps all others out
    Grant {
        #[command(flatten)]
        room: RoomPath,
        #[command(flatten)]
        grant: GrantArgs,
    },
    /// Lists the grants of a room
    Access {
        #[command(flatten)]
        room: RoomPath,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Takes a grant back; without its last one the room is open to all again
    Revoke {
        #[command(flatten)]
        room: RoomPath,
        /// The grant's id
        access_id: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ActorsCommand {
    /// Lists the project's actors
    List(ListArgs),
    /// Shows one actor, without its token
    Get(ActorId),
    /// Creates an actor, and shows its token this once
    Create(ActorCreateArgs),
    /// Changes an actor
    Update {
        #[command(flatten)]
        actor: ActorId,
        #[command(flatten)]
        change: ActorUpdateArgs,
    },
    /// Deletes an actor; its connections are closed
    Delete(ActorId),
}

#[derive(Debug, Subcommand)]
pub(crate) enum ScopesCommand {
    /// Lists the project's scopes
    List(ListArgs),
    /// Shows one scope
    Get(ScopeId),
    /// Creates a scope
    Create(ScopeCreateArgs),
    /// Changes a scope
    Update {
        #[command(flatten)]
        scope: ScopeId,
        #[command(flatten)]
        change: ScopeUpdateArgs,
    },
    /// Deletes a scope
    Delete(ScopeId),
    /// Lists a scope's actors
    Actors {
        #[command(flatten)]
        scope: ScopeId,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Confines an actor to a scope, and to no other
    AddActor {
        #[command(flatten)]
        scope: ScopeId,
        #[command(flatten)]
        actor: ActorId,
    },
    /// Sets an actor free from its scope
    RemoveActor(ActorId),
}

#[derive(Debug, Args)]
pub(crate) struct AppId {
    /// The app's id
    pub(crate) app_id: String,
}

#[derive(Debug, Args)]
pub(crate) struct RoomPath {
    /// The app's id
    pub(crate) app_id: String,
    /// The room's id
    pub(crate) room_id: String,
}

#[derive(Debug, Args)]
pub(crate) struct ActorId {
    /// The actor's id
    pub(crate) actor_id: String,
}

#[derive(Debug, Args)]
pub(crate) struct ScopeId {
    /// The scope's id
    pub(crate) scope_id: String,
}

/// What of a list to show: all of it by default.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Shows at most this many; with --page, how many a page has
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<NonZeroU64>,
    /// Shows this page alone, from 1
    #[arg(long, value_name = "N")]
    pub(crate) page: Option<NonZeroU64>,
    /// Sorts by a field, by its name in JSON, for example createdAt or createdAt:desc. Can be given several times
    #[arg(long, value_name = "FIELD[:desc]")]
    pub(crate) order_by: Vec<String>,
    /// Only those whose name holds this
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Only those of this status: active, disabled or suspended
    #[arg(long)]
    pub(crate) status: Option<String>,
    /// Only those that match this text
    #[arg(long, value_name = "TEXT")]
    pub(crate) search: Option<String>,
    /// Only those whose field, by its name in JSON, is this, for example slug=general. Can be given several times
    #[arg(long = "where", value_name = "FIELD=VALUE")]
    pub(crate) fields: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct AppCreateArgs {
    /// The name, 1 to 255 characters
    #[arg(long)]
    pub(crate) name: String,
    /// What addresses begin with: words of a-z 0-9 with one - between them [default: made from the name]
    #[arg(long)]
    pub(crate) slug: Option<String>,
    /// For people
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// A topic of its rooms. Can be given several times; without any nobody can subscribe to anything
    #[arg(long)]
    pub(crate) topic: Vec<String>,
    /// Who may use it
    #[arg(long, value_parser = ["open", "restricted"])]
    pub(crate) access_mode: Option<String>,
    /// The blueprint to make it from
    #[arg(long, value_name = "ID")]
    pub(crate) blueprint_id: Option<String>,
    /// Which version of the blueprint
    #[arg(long, value_name = "VERSION")]
    pub(crate) blueprint_version: Option<String>,
    /// Settings: a JSON object, or @FILE with one
    #[arg(long, value_name = "JSON")]
    pub(crate) config: Option<String>,
    /// Settings by topic: a JSON object, or @FILE with one
    #[arg(long, value_name = "JSON")]
    pub(crate) topic_configs: Option<String>,
    /// Asked for a state to send to each new subscriber: a URL, or @FILE with {"url":…,"headers":{…}}, since headers may be secrets
    #[arg(long, value_name = "URL")]
    pub(crate) hydration_webhook: Option<String>,
    /// Told of each publish: a URL, or @FILE with {"url":…,"headers":{…}}, since headers may be secrets
    #[arg(long, value_name = "URL")]
    pub(crate) trigger_webhook: Option<String>,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct AppUpdateArgs {
    /// The name, 1 to 255 characters
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// For people
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// Whether it may be used
    #[arg(long, value_parser = ["active", "disabled"])]
    pub(crate) status: Option<String>,
    /// Who may use it
    #[arg(long, value_parser = ["open", "restricted"])]
    pub(crate) access_mode: Option<String>,
    /// A topic of its rooms, in place of all it has. Can be given several times
    #[arg(long)]
    pub(crate) topic: Vec<String>,
    /// Settings: a JSON object, or @FILE with one
    #[arg(long, value_name = "JSON")]
    pub(crate) config: Option<String>,
    /// Settings by topic: a JSON object, or @FILE with one
    #[arg(long, value_name = "JSON")]
    pub(crate) topic_configs: Option<String>,
    /// The files of an app that is built from a blueprint: JSON, or @FILE with it
    #[arg(long, value_name = "JSON")]
    pub(crate) files: Option<String>,
    /// The version of the blueprint to stay at
    #[arg(long, value_name = "VERSION")]
    pub(crate) pinned_blueprint_version: Option<String>,
    /// Asked for a state to send to each new subscriber: a URL, or @FILE with {"url":…,"headers":{…}}, since headers may be secrets
    #[arg(long, value_name = "URL")]
    pub(crate) hydration_webhook: Option<String>,
    /// Told of each publish: a URL, or @FILE with {"url":…,"headers":{…}}, since headers may be secrets
    #[arg(long, value_name = "URL")]
    pub(crate) trigger_webhook: Option<String>,
    /// Empties a field. Can be given several times
    #[arg(long, value_name = "FIELD", value_parser = [
        "description", "topic-configs", "pinned-blueprint-version", "hydration-webhook", "trigger-webhook",
    ])]
    pub(crate) clear: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RoomCreateArgs {
    /// The name, 1 to 255 characters
    #[arg(long)]
    pub(crate) name: String,
    /// Its name in addresses: words of a-z 0-9 with one - between them [default: made from the name]
    #[arg(long)]
    pub(crate) slug: Option<String>,
    /// For people
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// A topic of its own; those of the app by default. Can be given several times
    #[arg(long)]
    pub(crate) topic: Vec<String>,
    /// Free-form data: a JSON object, or @FILE with one
    #[arg(long, value_name = "JSON")]
    pub(crate) metadata: Option<String>,
    /// Settings: a JSON object, or @FILE with one
    #[arg(long, value_name = "JSON")]
    pub(crate) config: Option<String>,
    /// Adds the topics that WebRTC calls need
    #[arg(long)]
    pub(crate) enable_webrtc: bool,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct RoomUpdateArgs {
    /// The name, 1 to 255 characters
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// For people
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// Whether it may be used
    #[arg(long, value_parser = ["active", "disabled"])]
    pub(crate) status: Option<String>,
    /// Whether it may be used, for older control planes
    #[arg(long, value_name = "BOOL")]
    pub(crate) enabled: Option<bool>,
    /// A topic of its own, in place of all it has. Can be given several times
    #[arg(long)]
    pub(crate) topic: Vec<String>,
    /// Free-form data: a JSON object, or @FILE with one
    #[arg(long, value_name = "JSON")]
    pub(crate) metadata: Option<String>,
    /// Settings: a JSON object, or @FILE with one
    #[arg(long, value_name = "JSON")]
    pub(crate) config: Option<String>,
    /// Empties a field
    #[arg(long, value_name = "FIELD", value_parser = ["description"])]
    pub(crate) clear: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct GrantArgs {
    /// What is permitted
    #[arg(long, value_parser = ["subscribe", "publish", "pubSub"])]
    pub(crate) permission: String,
    #[command(flatten)]
    pub(crate) to: GranteeArgs,
    /// Only this topic; all of the app's by default. Can be given several times
    #[arg(long)]
    pub(crate) topic: Vec<String>,
    /// When it ends, in ISO 8601 [default: never]
    #[arg(long, value_name = "TIME")]
    pub(crate) expires_at: Option<String>,
    /// A label for people, at most 100 characters
    #[arg(long)]
    pub(crate) role: Option<String>,
    /// Free-form data: a JSON object, or @FILE with one
    #[arg(long, value_name = "JSON")]
    pub(crate) metadata: Option<String>,
    /// Grants nothing yet
    #[arg(long)]
    pub(crate) inactive: bool,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct GranteeArgs {
    /// To this actor
    #[arg(long, value_name = "ACTOR_ID")]
    pub(crate) actor: Option<String>,
    /// To all actors of this type
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) actor_type: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ActorCreateArgs {
    /// The name, 1 to 255 characters
    #[arg(long)]
    pub(crate) name: String,
    /// What it is: device, user, service, session, agent, orchestrator or observer
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) actor_type: String,
    /// For people
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// What your own system calls it
    #[arg(long, value_name = "ID")]
    pub(crate) external_id: Option<String>,
    /// Free-form data: a JSON object, or @FILE with one
    #[arg(long, value_name = "JSON")]
    pub(crate) metadata: Option<String>,
    /// The scope that it is confined to
    #[arg(long, value_name = "SCOPE_ID")]
    pub(crate) scope: Option<String>,
    /// When its token ends, in ISO 8601 [default: never]
    #[arg(long, value_name = "TIME")]
    pub(crate) expires_at: Option<String>,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct ActorUpdateArgs {
    /// The name, 1 to 255 characters
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// For people
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// What your own system calls it
    #[arg(long, value_name = "ID")]
    pub(crate) external_id: Option<String>,
    /// Free-form data: a JSON object, or @FILE with one
    #[arg(long, value_name = "JSON")]
    pub(crate) metadata: Option<String>,
    /// Whether it may connect
    #[arg(long, value_parser = ["active", "disabled"])]
    pub(crate) status: Option<String>,
    /// Whether it may connect, for older control planes
    #[arg(long, value_name = "BOOL")]
    pub(crate) active: Option<bool>,
    /// When its token ends, in ISO 8601
    #[arg(long, value_name = "TIME")]
    pub(crate) expires_at: Option<String>,
    /// The scope that it is confined to
    #[arg(long, value_name = "SCOPE_ID")]
    pub(crate) scope: Option<String>,
    /// Empties a field. Can be given several times
    #[arg(long, value_name = "FIELD", value_parser = [
        "description", "external-id", "metadata", "expires-at", "scope",
    ])]
    pub(crate) clear: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ScopeCreateArgs {
    /// Its name in addresses: a-z 0-9 and, in between, -
    #[arg(long)]
    pub(crate) slug: String,
    /// The name, 1 to 255 characters
    #[arg(long)]
    pub(crate) name: String,
    /// For people, at most 500 characters
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// Free-form data: a JSON object, or @FILE with one
    #[arg(long, value_name = "JSON")]
    pub(crate) metadata: Option<String>,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct ScopeUpdateArgs {
    /// The name, 1 to 255 characters
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// For people, at most 500 characters
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// Free-form data: a JSON object, or @FILE with one
    #[arg(long, value_name = "JSON")]
    pub(crate) metadata: Option<String>,
    /// Whether it confines
    #[arg(long, value_name = "BOOL")]
    pub(crate) active: Option<bool>,
    /// Empties a field. Can be given several times
    #[arg(long, value_name = "FIELD", value_parser = ["description", "metadata"])]
    pub(crate) clear: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ApiPublishArgs {
    /// Where to publish, app and room by their ids, not their slugs
    #[arg(value_name = "APP_ID/ROOM_ID/TOPIC")]
    pub(crate) topic: String,
    /// The data of a message as JSON; several are a batch of up to 100. A single - is standard input
    #[arg(required = true, allow_negative_numbers = true)]
    pub(crate) data: Vec<String>,
    /// The broker's address, ws://, wss://, http:// or https:// [default: the NoLag cloud, wss://broker.nolag.app/ws]
    #[arg(long, env = "NOLAG_URL", hide_env_values = true)]
    pub(crate) url: Option<String>,
    /// The scope whose actors get it; without, those that have none
    #[arg(long, value_name = "SCOPE_ID")]
    pub(crate) scope: Option<String>,
    /// Routes to subscribers of this filter; a+b routes to subscribers of the group a+b
    #[arg(long)]
    pub(crate) filter: Option<String>,
    /// QoS on the broker's inner hop: 0, 1 or 2
    #[arg(long, value_name = "LEVEL", value_parser = qos)]
    pub(crate) qos: Option<QoS>,
    /// Keeps the message for later subscribers
    #[arg(long)]
    pub(crate) retain: bool,
}

pub(super) const EXAMPLES: &str = "\
Examples:
  nolag api apps create --name chat --topic messages
  nolag api rooms create APP_ID --name General --slug general
  nolag api actors create --name web-client --type device --metadata '{\"platform\":\"web\"}'
  nolag api rooms grant APP_ID ROOM_ID --actor ACTOR_ID --permission pubSub --expires-at 2030-01-01T00:00:00Z
  nolag api actors update ACTOR_ID --status disabled --clear external-id
  nolag api apps list --json | jq -r '.[].slug'

With `nolag dev`: NOLAG_API_URL=http://127.0.0.1:8080/v1 and NOLAG_API_KEY=nlg_live_dev.secret";

const PUBLISH_EXAMPLES: &str = "\
Examples:
  nolag api publish APP_ID/ROOM_ID/messages '{\"text\":\"hello\"}'
  nolag api publish APP_ID/ROOM_ID/messages 1 2 3 --retain
  date | jq -R . | nolag api publish APP_ID/ROOM_ID/messages -";
