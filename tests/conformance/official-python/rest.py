"""The official Python client and the REST control plane.

rest.py drive API_URL API_KEY  the client uses a control plane, which must do what is asked
rest.py compare PEER           the client and ours (PEER) make the same calls, which must be the same requests

Prints "ok" or "FAILED" per check.
"""

import asyncio
import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl

from nolag import NoLagApi, NoLagApiError, NoLagApiOptions
from nolag.api_types import (
    ActorCreate,
    ActorUpdate,
    AppCreate,
    AppUpdate,
    ListOptions,
    RoomActorAccessCreate,
    RoomCreate,
    RoomUpdate,
    ScopeCreate,
    ScopeUpdate,
)

PATIENCE = 20.0
TIME = "2030-01-01T00:00:00Z"


class Checks:
    failed = 0

    def check(self, name, good, found=None):
        if good:
            print(f"ok {name}", flush=True)
        else:
            self.failed += 1
            print(f"FAILED {name}: {found!r}", flush=True)


# ---- drive ----


async def refused(call):
    """The status with which a call is refused."""
    try:
        return f"not refused: {await call!r}"
    except NoLagApiError as error:
        return error.status_code


async def drive(url, key):
    checks = Checks()
    check = lambda name, good, found: checks.check(f"drive {name}", good, found)
    async with NoLagApi(key, NoLagApiOptions(base_url=url, timeout=PATIENCE)) as api:
        await drive_apps(api, check)
        app = await api.apps.create(AppCreate(name="Chat", topics=["messages"], config={"autoProvisionRooms": True}))
        await drive_rooms(api, app, check)
        await drive_actors(api, check)
        await drive_scopes(api, check)
        await drive_grants(api, app, check)
        await api.apps.delete(app.app_id)
    async with NoLagApi("nlg_live_wrong.secret", NoLagApiOptions(base_url=url, timeout=PATIENCE)) as stranger:
        status = await refused(stranger.apps.list())
        check("wrong key", status == 401, status)
    return checks.failed


async def drive_apps(api, check):
    before = (await api.apps.list()).pagination.total
    create = AppCreate(name="First App", description="d", topics=["messages"], blueprint_id="b1")
    app = await api.apps.create(create)
    suffix = app.slug.removeprefix("first-app-")
    check("apps.create", app.name == "First App" and len(suffix) == 4 and app.blueprint_id == "b1", app)
    other = await api.apps.create(AppCreate(name="Second App"))
    options = ListOptions(page=1, limit=1, sort_by="name", sort_order="desc", search="app")
    page = await api.apps.list(options)
    good = page.data == [other] and (page.pagination.total, page.pagination.page_count) == (2, 2)
    check("apps.list", good, page)
    got = await api.apps.get(app.app_id)
    check("apps.get", got == app, got)
    updated = await api.apps.update(app.app_id, AppUpdate(name="Renamed", description="", config={"a": 1}))
    good = (updated.name, updated.slug, updated.config) == ("Renamed", app.slug, {"a": 1})
    check("apps.update", good, updated)
    reset = await api.apps.reset_to_blueprint(app.app_id)
    check("apps.reset_to_blueprint", (reset.name, reset.config) == ("Renamed", app.config), reset)
    answers = [await api.apps.delete(one.app_id) for one in (app, other)]
    after = (await api.apps.list()).pagination.total
    check("apps.delete", answers == [{"success": True}] * 2 and after == before, (answers, after))
    status = await refused(api.apps.get(app.app_id))
    check("apps.get of a deleted one", status == 404, status)


async def drive_rooms(api, app, check):
    create = RoomCreate(name="General", description="d", topics=["messages"], config={"a": 1})
    room = await api.rooms.create(app.app_id, create)
    found = (room.slug, room.room_type, room.is_enabled, room.config)
    check("rooms.create", found == ("general", "dynamic", True, {"a": 1}), room)
    got = await api.rooms.get(app.app_id, room.room_id)
    check("rooms.get", got == room, got)
    status = await refused(api.rooms.create(app.app_id, create))
    check("rooms.create of one that exists", status == 409, status)
    ensured = await api.rooms.ensure(app.app_id, create)
    check("rooms.ensure of one that exists", ensured == room, ensured)
    late = await api.rooms.ensure(app.app_id, RoomCreate(name="Late"))
    check("rooms.ensure", late.slug == "late", late)
    rooms = await api.rooms.list(app.app_id)
    check("rooms.list", rooms == [room, late], rooms)
    update = RoomUpdate(name="Lobby", is_enabled=False, topics=[], config={})
    updated = await api.rooms.update(app.app_id, room.room_id, update)
    found = (updated.name, updated.slug, updated.is_enabled, updated.config)
    check("rooms.update", found == ("Lobby", "general", False, {}), updated)
    for one in (room, late):
        await api.rooms.delete(app.app_id, one.room_id)
    rooms = await api.rooms.list(app.app_id)
    check("rooms.delete", rooms == [], rooms)


async def drive_actors(api, check):
    create = ActorCreate(name="web", actor_type="device", external_id="42", metadata={"platform": "web"})
    actor = await api.actors.create(create)
    found = (actor.actor_type, actor.external_id, actor.metadata, actor.is_active)
    good = found == ("device", "42", {"platform": "web"}, True) and actor.access_token.startswith("at_live_")
    check("actors.create", good, found)
    got = await api.actors.get(actor.actor_token_id)
    check("actors.get", (got.name, got.created_at) == ("web", actor.created_at), got)
    actors = await api.actors.list()
    check("actors.list", actors == [got], actors)
    update = ActorUpdate(name="phone", is_active=False, metadata={})
    updated = await api.actors.update(actor.actor_token_id, update)
    found = (updated.name, updated.is_active, updated.metadata, updated.external_id)
    check("actors.update", found == ("phone", False, {}, "42"), updated)
    await api.actors.delete(actor.actor_token_id)
    actors = await api.actors.list()
    check("actors.delete", actors == [], actors)
    status = await refused(api.actors.create(ActorCreate(name="x" * 256, actor_type="device")))
    check("actors.create with a name too long", status == 400, status)


async def drive_scopes(api, check):
    scope = await api.scopes.create(ScopeCreate(slug="acme", name="Acme", description="d", metadata={"a": 1}))
    check("scopes.create", (scope.slug, scope.is_active, scope.metadata) == ("acme", True, {"a": 1}), scope)
    got = await api.scopes.get(scope.access_scope_id)
    check("scopes.get", got == scope, got)
    page = await api.scopes.list(ListOptions(page=1, limit=5))
    check("scopes.list", page.data == [scope] and page.pagination.total == 1, page)
    updated = await api.scopes.update(scope.access_scope_id, ScopeUpdate(name="Other", is_active=False))
    check("scopes.update", (updated.name, updated.is_active) == ("Other", False), updated)
    actor = await api.actors.create(ActorCreate(name="a", actor_type="user"))
    added = await api.scopes.add_actor(scope.access_scope_id, actor.actor_token_id)
    inside = await api.scopes.list_actors(scope.access_scope_id)
    check("scopes.add_actor", inside == [added], inside)
    status = await refused(api.scopes.delete(scope.access_scope_id))
    check("scopes.delete of one with actors", status == 409, status)
    await api.scopes.remove_actor(actor.actor_token_id)
    inside = await api.scopes.list_actors(scope.access_scope_id)
    check("scopes.remove_actor", inside == [], inside)
    await api.actors.delete(actor.actor_token_id)
    await api.scopes.delete(scope.access_scope_id)
    page = await api.scopes.list()
    check("scopes.delete", page.data == [] and page.pagination.total == 0, page)


async def drive_grants(api, app, check):
    room = await api.rooms.create(app.app_id, RoomCreate(name="Private"))
    actor = await api.actors.create(ActorCreate(name="a", actor_type="user"))
    ids = (app.app_id, room.room_id)
    create = RoomActorAccessCreate("pubSub", actor_token_id=actor.actor_token_id, expires_at=TIME, role="host")
    first = await api.rooms.grant_actor(*ids, create)
    found = (first.room_id, first.actor_token_id, first.permission, first.role, first.is_active)
    check("rooms.grant_actor", found == (room.room_id, actor.actor_token_id, "pubSub", "host", True), first)
    second = await api.rooms.grant_actor(*ids, RoomActorAccessCreate("subscribe", actor_type="observer"))
    check("rooms.grant_actor to a type", second.actor_type == "observer", second)
    grants = await api.rooms.list_actors(*ids)
    check("rooms.list_actors", grants == [first, second], grants)
    await api.rooms.revoke_actor(*ids, first.room_actor_access_id)
    grants = await api.rooms.list_actors(*ids)
    check("rooms.revoke_actor", grants == [second], grants)
    await api.actors.delete(actor.actor_token_id)


# ---- compare ----


def requests(api):
    """The calls, each with a name; rest_peer.rs makes the same."""
    page = ListOptions(page=2, limit=5, sort_by="name", sort_order="desc", search="grüße & more")
    app = AppCreate(
        name="Grüße ✓",
        slug="chat",
        description="A chat",
        blueprint_id="b1",
        blueprint_version="2",
        config={"autoProvisionRooms": True, "depth": {"list": [1, 2.5, None]}},
        topics=["messages", "jobs"],
        topic_configs={"jobs": {"qos": 1}},
        hydration_webhook={"url": "https://example.com/h", "headers": {"X-Key": "k"}},
        trigger_webhook={"url": "https://example.com/t"},
    )
    yield "apps.list", api.apps.list()
    yield "apps.list with everything", api.apps.list(page)
    yield "apps.list in order", api.apps.list(ListOptions(sort_by="name", sort_order="asc"))
    yield "apps.get", api.apps.get("a1")
    yield "apps.get of an odd id", api.apps.get("a/1")
    yield "apps.create", api.apps.create(AppCreate(name="chat"))
    yield "apps.create with everything", api.apps.create(app)
    yield "apps.create with nothing in it", api.apps.create(AppCreate(name="chat", description="", topics=[], config={}))
    yield "apps.update", api.apps.update("a1", AppUpdate(name="talk"))
    yield "apps.update to nothing in it", api.apps.update("a1", AppUpdate(name="talk", description="", config={}))
    yield "apps.update of the slug", api.apps.update("a1", AppUpdate(name="talk", slug="talk"))
    yield "apps.update of nothing", api.apps.update("a1", AppUpdate())
    yield "apps.reset_to_blueprint", api.apps.reset_to_blueprint("a1")
    yield "apps.delete", api.apps.delete("a1")

    room = RoomCreate(
        name="General", slug="general", description="For all", topics=["messages"], config={"floor": 2}
    )
    yield "rooms.list", api.rooms.list("a1")
    yield "rooms.get", api.rooms.get("a1", "r1")
    yield "rooms.create", api.rooms.create("a1", RoomCreate(name="General"))
    yield "rooms.create with everything", api.rooms.create("a1", room)
    yield "rooms.ensure", api.rooms.ensure("a1", room)
    yield "rooms.update", api.rooms.update("a1", "r1", RoomUpdate(is_enabled=False))
    everything = RoomUpdate(name="Lobby", description="", is_enabled=True, topics=[], config={})
    yield "rooms.update of everything", api.rooms.update("a1", "r1", everything)
    yield "rooms.delete", api.rooms.delete("a1", "r1")
    access = RoomActorAccessCreate("pubSub", actor_token_id="t1")
    yield "rooms.grant_actor", api.rooms.grant_actor("a1", "r1", access)
    everything = RoomActorAccessCreate(
        "subscribe",
        actor_type="observer",
        topics=[],
        is_active=False,
        expires_at=TIME,
        role="guest",
        metadata={"by": "me"},
    )
    yield "rooms.grant_actor with everything", api.rooms.grant_actor("a1", "r1", everything)
    yield "rooms.list_actors", api.rooms.list_actors("a1", "r1")
    yield "rooms.revoke_actor", api.rooms.revoke_actor("a1", "r1", "g1")

    yield "actors.list", api.actors.list()
    yield "actors.get", api.actors.get("t1")
    yield "actors.create", api.actors.create(ActorCreate(name="web", actor_type="device"))
    everything = ActorCreate(
        name="web",
        actor_type="orchestrator",
        description="In browsers",
        external_id="42",
        metadata={"platform": "web"},
    )
    yield "actors.create with everything", api.actors.create(everything)
    yield "actors.update", api.actors.update("t1", ActorUpdate(is_active=False))
    everything = ActorUpdate(
        name="phone", description="", external_id="43", metadata={}, is_active=True, access_scope_id="s1"
    )
    yield "actors.update of everything", api.actors.update("t1", everything)
    yield "actors.delete", api.actors.delete("t1")

    yield "scopes.list", api.scopes.list()
    yield "scopes.list with everything", api.scopes.list(page)
    yield "scopes.get", api.scopes.get("s1")
    yield "scopes.create", api.scopes.create(ScopeCreate(slug="acme", name="Acme"))
    everything = ScopeCreate(slug="acme", name="Acme", description="A tenant", metadata={"plan": "big"})
    yield "scopes.create with everything", api.scopes.create(everything)
    everything = ScopeUpdate(name="Acme Inc", description="", metadata={}, is_active=False)
    yield "scopes.update of everything", api.scopes.update("s1", everything)
    yield "scopes.list_actors", api.scopes.list_actors("s1")
    yield "scopes.add_actor", api.scopes.add_actor("s1", "t1")
    yield "scopes.remove_actor", api.scopes.remove_actor("t1")
    yield "scopes.delete", api.scopes.delete("s1")


# What differs, and must differ in just this way: what the official client sends, and what ours sends. Everything else is
# the same. The header "Content-Type" of requests without a body, which only the official client sends, is not compared.
DIFFERENCES = {
    # Ours has sortBy and sortOrder too; what the API documents is another parameter.
    "apps.list in order": ("query", {"sortBy": "name", "sortOrder": "asc"}, {"orderBy": "name:ASC"}),
    # An id is one segment of the path, whatever is in it. The official client puts it in as it is.
    "apps.get of an odd id": ("path", "/v1/apps/a/1", "/v1/apps/a%2F1"),
    # The official client leaves out of creations what is empty. Ours sends what was set.
    "apps.create with nothing in it": (
        "body",
        {"name": "chat"},
        {"name": "chat", "description": "", "topics": [], "config": {}},
    ),
    # Slugs cannot be changed: control planes refuse the field, and ours has no way to send it.
    "apps.update of the slug": ("body", {"name": "talk", "slug": "talk"}, {"name": "talk"}),
}


class Recorder(BaseHTTPRequestHandler):
    """Takes everything, remembers it, and answers with something that can be read."""

    protocol_version = "HTTP/1.1"
    heard = []

    def answer(self):
        path, _, query = self.path.partition("?")
        text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request = {
            "method": self.command,
            "path": path,
            "query": dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))),
            "body": json.loads(text) if text else None,
            "authorization": self.headers["Authorization"],
            "content type": self.headers["Content-Type"] if text else None,
        }
        self.heard.append(request)
        status, body = 200, thing()
        if self.command == "DELETE":
            status, body = 204, None
            if path == "/v1/apps/a1":
                status, body = 200, {"success": True}
        elif self.command == "GET" and path in ("/v1/apps", "/v1/scopes"):
            body = {"data": [thing()], "pagination": {"total": 1, "page": 1, "pageCount": 1}}
        elif self.command == "GET" and path.endswith(("/rooms", "/actors")):
            body = [thing()]
        elif self.command == "POST" and text:
            status = 201
        text = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        if body is not None:
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PATCH = do_DELETE = answer

    def log_message(self, *args):
        pass


def thing():
    """Something that can be taken for anything."""
    ids = ["appId", "roomId", "actorTokenId", "accessScopeId", "roomActorAccessId"]
    return {key: "x1" for key in ids} | {"accessToken": "at_live_x1.secret", "name": "x", "slug": "x"}


def taken():
    """What was recorded since the last time."""
    heard, Recorder.heard[:] = Recorder.heard[:], []
    return heard


async def compare(peer):
    checks = Checks()
    key = "nlg_live_both.secret"
    server = ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}/v1"

    names = []
    async with NoLagApi(key, NoLagApiOptions(base_url=url, timeout=PATIENCE)) as api:
        for name, call in requests(api):
            names.append(name)
            await call
    official = taken()
    subprocess.run([peer, url, key], check=True, timeout=PATIENCE)
    ours = taken()

    counts = (len(names), len(official), len(ours))
    checks.check("compare count", len(set(counts)) == 1 and DIFFERENCES.keys() <= set(names), counts)
    for name, theirs, our in zip(names, official, ours):
        expected = dict(theirs)
        found = [theirs["authorization"], our]
        good = theirs["authorization"] == f"Bearer {key}"
        if name in DIFFERENCES:
            part, official_part, our_part = DIFFERENCES[name]
            found.append(theirs[part])
            good = good and theirs[part] == official_part
            expected[part] = our_part
        checks.check(f"compare {name}", good and our == expected, (expected, *found))
    return checks.failed


if __name__ == "__main__":
    try:
        tasks = {"drive": drive, "compare": compare}
        sys.exit(1 if asyncio.run(tasks[sys.argv[1]](*sys.argv[2:])) else 0)
    except Exception as error:  # One line says more than a traceback.
        print(f"FAILED {sys.argv[1:2]} goes on: {type(error).__name__} {error}", flush=True)
        sys.exit(1)
