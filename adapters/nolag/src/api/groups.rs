//! What can be called, by what it is about. The words are those of [`nolag_core::rest`], whose functions do the work.

use nolag_core::rest::{
    self, Actor, ActorCreate, ActorUpdate, ActorWithToken, App, AppCreate, AppUpdate, ListParams, Page, Room,
    RoomAccess, RoomAccessCreate, RoomCreate, RoomUpdate, Scope, ScopeCreate, ScopeUpdate,
};

use super::{ApiCall, NoLagApi, Pages};

/// What rooms and topics belong to. From [`NoLagApi::apps`].
#[derive(Debug, Clone)]
pub struct Apps {
    pub(super) api: NoLagApi,
}

impl Apps {
    /// Lists the project's apps: one page.
    pub fn list(&self, params: &ListParams) -> ApiCall<Page<App>> {
        self.api.call(rest::apps::list(params))
    }

    /// Lists the project's apps, page by page.
    pub fn pages(&self, params: ListParams) -> Pages<App> {
        Pages::new(&self.api.shared, params, rest::apps::list)
    }

    /// Reads one app.
    pub fn get(&self, app_id: &str) -> ApiCall<App> {
        self.api.call(rest::apps::get(app_id))
    }

    /// Creates an app. Its slug gets a random suffix in the cloud: use the one in the answer.
    pub fn create(&self, app: &AppCreate) -> ApiCall<App> {
        self.api.call(rest::apps::create(app))
    }

    /// Changes an app.
    pub fn update(&self, app_id: &str, app: &AppUpdate) -> ApiCall<App> {
        self.api.call(rest::apps::update(app_id, app))
    }

    /// Deletes an app. When it had to be [retried](crate::ApiOptions::retries), it may be answered with 404: then it is gone.
    pub fn delete(&self, app_id: &str) -> ApiCall<()> {
        self.api.call(rest::apps::delete(app_id))
    }

    /// Sets an app's configuration back to that of the blueprint it was made from.
    pub fn reset_to_blueprint(&self, app_id: &str) -> ApiCall<App> {
        self.api.call(rest::apps::reset_to_blueprint(app_id))
    }
}

/// Rooms, and who may enter them. From [`NoLagApi::rooms`].
#[derive(Debug, Clone)]
pub struct Rooms {
    pub(super) api: NoLagApi,
}

impl Rooms {
    /// Lists an app's rooms: one page, or all of them from servers that do not page this list.
    pub fn list(&self, app_id: &str, params: &ListParams) -> ApiCall<Page<Room>> {
        self.api.call(rest::rooms::list(app_id, params))
    }

    /// Lists an app's rooms, page by page.
    pub fn pages(&self, app_id: &str, params: ListParams) -> Pages<Room> {
        let app_id = app_id.to_owned();
        Pages::new(&self.api.shared, params, move |params| rest::rooms::list(&app_id, params))
    }

    /// Reads one room.
    pub fn get(&self, app_id: &str, room_id: &str) -> ApiCall<Room> {
        self.api.call(rest::rooms::get(app_id, room_id))
    }

    /// Creates a room. Rooms never come to be by themselves: until this, its topics are unknown.
    pub fn create(&self, app_id: &str, room: &RoomCreate) -> ApiCall<Room> {
        self.api.call(rest::rooms::create(app_id, room))
    }

    /// Creates a room unless there is one of that slug, which is then given unchanged.
    ///
    /// The server refuses with 403 unless the app's `config.autoProvisionRooms` is true.
    pub fn ensure(&self, app_id: &str, room: &RoomCreate) -> ApiCall<Room> {
        self.api.call(rest::rooms::ensure(app_id, room))
    }

    /// Changes a room.
    pub fn update(&self, app_id: &str, room_id: &str, room: &RoomUpdate) -> ApiCall<Room> {
        self.api.call(rest::rooms::update(app_id, room_id, room))
    }

    /// Deletes a room. Static rooms, which come from a blueprint, cannot be deleted.
    pub fn delete(&self, app_id: &str, room_id: &str) -> ApiCall<()> {
        self.api.call(rest::rooms::delete(app_id, room_id))
    }

    /// Grants access to a room. The first grant makes the room private: from then on only actors with a grant may enter.
    pub fn grant_access(
        &self,
        app_id: &str,
        room_id: &str,
        access: &RoomAccessCreate,
    ) -> ApiCall<RoomAccess> {
        self.api.call(rest::rooms::grant_access(app_id, room_id, access))
    }

    /// Lists the grants of a room: one page, or all of them from servers that do not page this list.
    pub fn list_access(&self, app_id: &str, room_id: &str, params: &ListParams) -> ApiCall<Page<RoomAccess>> {
        self.api.call(rest::rooms::list_access(app_id, room_id, params))
    }

    /// Lists the grants of a room, page by page.
    pub fn access_pages(&self, app_id: &str, room_id: &str, params: ListParams) -> Pages<RoomAccess> {
        let app_id = app_id.to_owned();
        let room_id = room_id.to_owned();
        Pages::new(&self.api.shared, params, move |params| {
            rest::rooms::list_access(&app_id, &room_id, params)
        })
    }

    /// Takes a grant back, by its [`access_id`](RoomAccess::access_id). Without its last grant the room is open to all again.
    pub fn revoke_access(&self, app_id: &str, room_id: &str, access_id: &str) -> ApiCall<()> {
        self.api.call(rest::rooms::revoke_access(app_id, room_id, access_id))
    }
}

/// Who may connect, and the tokens they connect with. From [`NoLagApi::actors`].
#[derive(Debug, Clone)]
pub struct Actors {
    pub(super) api: NoLagApi,
}

impl Actors {
    /// Lists the project's actors: one page, or all of them from servers that do not page this list.
    pub fn list(&self, params: &ListParams) -> ApiCall<Page<Actor>> {
        self.api.call(rest::actors::list(params))
    }

    /// Lists the project's actors, page by page.
    pub fn pages(&self, params: ListParams) -> Pages<Actor> {
        Pages::new(&self.api.shared, params, rest::actors::list)
    }

    /// Reads one actor.
    pub fn get(&self, actor_id: &str) -> ApiCall<Actor> {
        self.api.call(rest::actors::get(actor_id))
    }

    /// Creates an actor. The answer, and no other one ever, has its token: keep it.
    pub fn create(&self, actor: &ActorCreate) -> ApiCall<ActorWithToken> {
        self.api.call(rest::actors::create(actor))
    }

    /// Changes an actor.
    pub fn update(&self, actor_id: &str, actor: &ActorUpdate) -> ApiCall<Actor> {
        self.api.call(rest::actors::update(actor_id, actor))
    }

    /// Deletes an actor; its connections are closed.
    pub fn delete(&self, actor_id: &str) -> ApiCall<()> {
        self.api.call(rest::actors::delete(actor_id))
    }
}

/// Tenants that are kept apart within a project. From [`NoLagApi::scopes`].
#[derive(Debug, Clone)]
pub struct Scopes {
    pub(super) api: NoLagApi,
}

impl Scopes {
    /// Lists the project's scopes: one page.
    pub fn list(&self, params: &ListParams) -> ApiCall<Page<Scope>> {
        self.api.call(rest::scopes::list(params))
    }

    /// Lists the project's scopes, page by page.
    pub fn pages(&self, params: ListParams) -> Pages<Scope> {
        Pages::new(&self.api.shared, params, rest::scopes::list)
    }

    /// Reads one scope.
    pub fn get(&self, scope_id: &str) -> ApiCall<Scope> {
        self.api.call(rest::scopes::get(scope_id))
    }

    /// Creates a scope.
    pub fn create(&self, scope: &ScopeCreate) -> ApiCall<Scope> {
        self.api.call(rest::scopes::create(scope))
    }

    /// Changes a scope.
    pub fn update(&self, scope_id: &str, scope: &ScopeUpdate) -> ApiCall<Scope> {
        self.api.call(rest::scopes::update(scope_id, scope))
    }

    /// Deletes a scope. Servers may refuse while it has actors: deleting it would set them free.
    pub fn delete(&self, scope_id: &str) -> ApiCall<()> {
        self.api.call(rest::scopes::delete(scope_id))
    }

    /// Lists a scope's actors: one page, or all of them from servers that do not page this list.
    pub fn list_actors(&self, scope_id: &str, params: &ListParams) -> ApiCall<Page<Actor>> {
        self.api.call(rest::scopes::list_actors(scope_id, params))
    }

    /// Lists a scope's actors, page by page.
    pub fn actor_pages(&self, scope_id: &str, params: ListParams) -> Pages<Actor> {
        let scope_id = scope_id.to_owned();
        Pages::new(&self.api.shared, params, move |params| rest::scopes::list_actors(&scope_id, params))
    }

    /// Confines an actor to a scope, and to no other: an update of the actor.
    pub fn add_actor(&self, scope_id: &str, actor_id: &str) -> ApiCall<Actor> {
        self.api.call(rest::scopes::add_actor(scope_id, actor_id))
    }

    /// Sets an actor free from its scope: an update of the actor.
    pub fn remove_actor(&self, actor_id: &str) -> ApiCall<Actor> {
        self.api.call(rest::scopes::remove_actor(actor_id))
    }
}
