"""Logging in at the registry: users by HTTP Basic, programs by bearer tokens."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tallymark.net.web.login import MAX_WRONG
from tallymark.reread_file import LOOK_SECONDS
from tallymark_schema_registry.access.access_file import AccessFile, UsersWithAllRights
from tallymark_schema_registry.access.document import (
    Document,
    GrantsPart,
    TokenPart,
    UserPart,
    utc,
    write_document,
)
from tallymark_schema_registry.access.grants import EVERYBODY, Principal, Right
from tallymark_schema_registry.access.hashes import PasswordHash, new_token, token_digest
from tallymark_schema_registry.access.log_in import (
    AT_LEAST_SECONDS,
    PRINCIPAL,
    RegistryLogIn,
    principal_in,
)
from tallymark_schema_registry.catalog.subject import Subject

TOKEN = new_token()


def basic(name: str, password: str) -> bytes:
    return b"Basic " + base64.b64encode(f"{name}:{password}".encode())


class Scene:
    """A file with alice and the token ci, a clock that stands still, and who waited how long."""

    def __init__(self, folder: Path) -> None:
        self.seconds = 0.0
        self.waited: list[float] = []
        self.path = folder / "access.json"
        self.hash = str(PasswordHash.of("right", cost=10, passes=1))
        self.write(self.document())
        self.file = AccessFile(self.path, lambda: self.seconds)
        self.log_in = RegistryLogIn(
            self.file, clock=lambda: self.seconds, now=lambda: self.seconds, sleep=self.sleep
        )

    def document(self) -> Document:
        return Document(
            users={"alice": UserPart(password=self.hash, grants=GrantsPart(read=["a"]))},
            tokens={
                "ci": TokenPart(
                    sha256=token_digest(TOKEN), expires=utc(100), grants=GrantsPart(write=["b"])
                )
            },
        )

    def write(self, document: Document) -> None:
        write_document(self.path, document)
        self.seconds += LOOK_SECONDS

    async def sleep(self, seconds: float) -> None:
        self.waited.append(seconds)

    async def status(self, authorization: bytes, host: str = "h") -> int:
        return (await self.log_in.log_in(authorization, host)).status


def scene(test: Callable[[Scene], Coroutine[Any, Any, None]]) -> Callable[[Path], None]:
    def run(tmp_path: Path) -> None:
        asyncio.run(test(Scene(tmp_path)))

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@scene
async def test_who_gets_in(s: Scene) -> None:
    found = await s.log_in.log_in(basic("alice", "right"), "h")
    assert found.status == 200
    assert found.principal is not None
    assert found.principal.name == "alice"
    assert found.principal.may(Right.READ, Subject(".", "a"))
    found = await s.log_in.log_in(b"bearer " + TOKEN.encode(), "h")
    assert found.principal is not None
    assert found.principal.name == "token:ci"
    assert found.principal.may(Right.WRITE, Subject(".", "b"))
    for wrong in (
        b"",
        b"Bearer",
        b"Bearer ",
        b"Bearer x",
        b"Bearer " + b"x" * 20_000,
        b"Bearer " + token_digest(TOKEN).encode(),
        b"Basic " + TOKEN.encode(),
        basic("alice", "wrong"),
        basic("ci", TOKEN),
        basic("token:ci", TOKEN),
        b"Negotiate abc",
    ):
        assert (await s.log_in.log_in(wrong, "h")) == (401, None)


@scene
async def test_what_was_verified_is_known_without_work_until_it_changes(s: Scene) -> None:
    right = basic("alice", "right")
    assert s.log_in.principal_of(right) is None
    before = (await s.log_in.log_in(right, "h")).principal
    assert before is not None
    assert s.log_in.principal_of(right) is before
    assert s.log_in.principal_of(basic("alice", "wrong")) is None
    generation = s.log_in.generation
    changed = s.document()
    changed.users["alice"].grants = GrantsPart(read=["b"])
    s.write(changed)
    assert s.log_in.generation != generation
    assert s.log_in.principal_of(right) is None
    after = (await s.log_in.log_in(right, "h")).principal
    assert after is not None
    assert after.grants.view != before.grants.view
    s.write(Document())
    assert await s.status(right) == 401
    assert await s.status(b"Bearer " + TOKEN.encode()) == 401


@scene
async def test_a_token_ends_when_it_says_so(s: Scene) -> None:
    bearer = b"Bearer " + TOKEN.encode()
    s.seconds = 99.9
    assert await s.status(bearer) == 200
    assert s.log_in.principal_of(bearer) is not None
    s.seconds = 100
    assert s.log_in.principal_of(bearer) is None
    assert await s.status(bearer) == 401


@scene
async def test_refusals_wait_for_their_turn(s: Scene) -> None:
    """Whoever is refused at once asks again at once, on hundreds of connections."""
    found = [await s.status(basic("alice", f"{n}")) for n in range(2 * MAX_WRONG)]
    assert found == [401] * MAX_WRONG + [429] * MAX_WRONG
    assert min(s.waited) >= AT_LEAST_SECONDS
    s.waited.clear()
    for n in range(50):
        assert await s.status(b"Bearer %d" % n) == 401
    assert s.waited[-1] > 1
    # Others at that address, and users elsewhere, get in meanwhile.
    assert await s.status(b"Bearer " + TOKEN.encode()) == 200
    assert await s.status(basic("alice", "right"), "elsewhere") == 200


def test_users_without_rights_of_their_own_may_do_everything() -> None:
    class Users:
        version = 1

        def knows(self, name: str) -> bool:
            return name == "alice"

        def fits(self, name: str, password: str) -> bool:
            return (name, password) == ("alice", "right")

    async def main() -> None:
        log_in = RegistryLogIn(UsersWithAllRights(Users()))
        found = await log_in.log_in(basic("alice", "right"), "h")
        assert found.principal is not None
        assert found.principal.name == "alice"
        assert found.principal.grants.unlimited
        assert (await log_in.log_in(b"Bearer x", "h")).status == 401

    asyncio.run(main())


async def answer(s: Scene, path: str, *headers: tuple[bytes, bytes]) -> dict[str, Any]:
    """What a request gets: status, headers and body, and whom the application saw."""
    got: dict[str, Any] = {"headers": [], "principal": None}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        got["principal"] = principal_in(scope)
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message: Any) -> None:
        got.update({k: v for k, v in message.items() if k in ("status", "headers", "body")})

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    scope = {"type": "http", "path": path, "headers": list(headers), "client": ("h", 1)}
    await s.log_in.around(app)(scope, receive, send)
    return got


@scene
async def test_a_request_without_log_in_is_told_how(s: Scene) -> None:
    got = await answer(s, "/subjects")
    assert got["status"] == 401
    assert json.loads(got["body"])["error_code"] == 401
    challenges = [value for name, value in got["headers"] if name == b"www-authenticate"]
    assert challenges == [b'Basic realm="tallymark", charset="UTF-8"', b'Bearer realm="tallymark"']
    assert got["principal"] is None
    wrong = await answer(s, "/subjects", (b"authorization", b"Bearer secret"))
    assert (wrong["status"], wrong["principal"]) == (401, None)
    assert b"secret" not in wrong["body"]


@scene
async def test_the_application_sees_who_it_is(s: Scene) -> None:
    got = await answer(s, "/subjects", (b"authorization", basic("alice", "right")))
    assert got["status"] == 200
    assert got["principal"].name == "alice"
    # A health check needs no log-in, and may see nothing.
    got = await answer(s, "/healthz")
    assert got["status"] == 200
    assert not got["principal"].may(Right.READ, Subject(".", "a"))


def test_where_nobody_logs_in_everybody_may_do_everything() -> None:
    assert principal_in({}) is EVERYBODY
    with pytest.raises(AssertionError):
        principal_in({PRINCIPAL: "alice"})
    alice = Principal("alice", EVERYBODY.grants)
    assert principal_in({PRINCIPAL: alice}) is alice
