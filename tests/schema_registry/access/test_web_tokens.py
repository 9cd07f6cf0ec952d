"""Log-ins by tokens of an issuer: who it is and what the roles in the token give."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from eventually import eventually
from token_world import AUDIENCE, ISSUER, Issuer

from tallymark.deployment import RegistryTokens
from tallymark.errors import UserError
from tallymark.net.web.access import WebAccess
from tallymark.net.web.guard import OwnNames
from tallymark_schema_registry.access.document import (
    Document,
    GrantsPart,
    changed_document,
    write_document,
)
from tallymark_schema_registry.access.grants import Right
from tallymark_schema_registry.access.log_in import RegistryLogIn, registry_log_in
from tallymark_schema_registry.access.web_tokens import roles_in
from tallymark_schema_registry.catalog.subject import Subject
from tallymark_schema_registry.embedded import RegistryServer

OPEN, MINE = Subject(".", "open-a"), Subject(".", "mine-a")


class World:
    """An issuer whose keys are in a file, and the accounts with two roles."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.issuer = Issuer()
        self.keys = folder / "keys.json"
        self.keys.write_bytes(self.issuer.key_set())
        self.file = folder / "access.json"
        roles = {"readers": GrantsPart(read=["open-*"]), "team": GrantsPart(write=["mine-*"])}
        write_document(self.file, Document(roles=roles))

    def settings(self, **more: object) -> RegistryTokens:
        given = {"jwks": f"file://{self.keys}", "issuer": ISSUER, "audience": (AUDIENCE,)}
        return RegistryTokens.model_validate(given | more)

    async def started(self, **more: object) -> RegistryLogIn:
        found = registry_log_in(str(self.file), "", self.settings(**more))
        assert found is not None
        found.start()
        deadline = time.monotonic() + 20
        while not await self.gets_in(found, self.issuer.token(aud=AUDIENCE)):
            assert time.monotonic() < deadline
        return found

    async def gets_in(self, log_in: RegistryLogIn, token: str) -> bool:
        return (await log_in.log_in(bearer(token), "h")).status == 200


def bearer(token: str) -> bytes:
    return b"Bearer " + token.encode()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_token_names_its_user_and_roles(world: World) -> None:
    async def main() -> None:
        log_in = await world.started()
        token = bearer(world.issuer.token("ann", roles=["readers", "team", "unknown"]))
        assert log_in.principal_of(token) is None
        found = (await log_in.log_in(token, "h")).principal
        assert found is not None
        assert found.name == "oidc:ann"
        assert found.may(Right.READ, OPEN)
        assert found.may(Right.WRITE, MINE)
        assert not found.may(Right.WRITE, OPEN)
        assert log_in.principal_of(token) is found
        # Who has the same roles shares what is remembered; who has none may do nothing.
        other = (
            await log_in.log_in(bearer(world.issuer.token("bob", roles="team readers")), "h")
        ).principal
        assert other is not None
        assert other.grants is found.grants
        nobody = (await log_in.log_in(bearer(world.issuer.token("eve")), "h")).principal
        assert nobody is not None
        assert not nobody.may(Right.READ, OPEN)
        await log_in.stop()

    asyncio.run(main())


@pytest.mark.filterwarnings("ignore:JWS algorithm")
@pytest.mark.slow
def test_what_is_no_good_token_is_refused(world: World) -> None:
    async def main() -> None:
        log_in = await world.started()
        issuer, now = world.issuer, time.time()
        stranger = Issuer()
        tokens = [
            issuer.token(iss="https://evil.example"),
            issuer.token(aud="other"),
            issuer.token(aud=None),
            issuer.token(exp=now - 40),
            issuer.token(exp=None),
            issuer.token(nbf=now + 60),
            issuer.token(sub=""),
            issuer.token(header={"alg": "none"}),
            stranger.token(),
            issuer.token()[:-4],
            "a.b.c",
            "a.b",
        ]
        for token in tokens:
            assert not await world.gets_in(log_in, token), token
        assert await world.gets_in(log_in, issuer.token(exp=now - 20))  # within the leeway
        await log_in.stop()

    asyncio.run(main())


@pytest.mark.slow
def test_what_is_remembered_ends_with_the_token_and_with_the_roles(world: World) -> None:
    async def main() -> None:
        log_in = await world.started(leeway_s=0)
        short = world.issuer.token("ann", roles=["team"], exp=time.time() + 1.5)
        assert await world.gets_in(log_in, short)
        long = bearer(world.issuer.token("bob", roles=["team"]))
        assert (await log_in.log_in(long, "h")).status == 200
        with changed_document(world.file) as document:
            document.roles["team"] = GrantsPart(read=["x"])
        deadline = time.monotonic() + 10
        while log_in.principal_of(long) is not None:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)
        found = (await log_in.log_in(long, "h")).principal
        assert found is not None
        assert not found.may(Right.WRITE, MINE)
        while await world.gets_in(log_in, short):
            assert time.monotonic() < deadline
        await log_in.stop()

    asyncio.run(main())


def test_no_request_makes_the_server_read_keys(world: World) -> None:
    """A token that names an unknown key, or says where its key is, is refused and nothing is
    fetched; new keys are known after the next reading."""

    async def main() -> None:
        log_in = await world.started(refresh_s=10)
        world.issuer.rotate("two")
        world.keys.write_bytes(world.issuer.key_set())
        assert not await world.gets_in(log_in, world.issuer.token())
        header = {"jku": "http://127.0.0.1:1/keys", "kid": "three"}
        assert not await world.gets_in(log_in, world.issuer.token(header=header))
        await log_in.stop()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("claims", "path", "roles"),
    [
        ({"roles": ["a", "b"]}, "roles", {"a", "b"}),
        ({"roles": "a b"}, "roles", {"a", "b"}),
        ({"realm_access": {"roles": ["a"]}}, "realm_access.roles", {"a"}),
        ({"https://example.com/roles": ["a"]}, "https://example.com/roles", {"a"}),
        ({"roles": ["a", 1, None, ["b"]]}, "roles", {"a"}),
        ({"roles": {"a": 1}}, "roles", set()),
        ({"roles": 7}, "roles.a", set()),
        ({}, "roles", set()),
    ],
)
def test_where_roles_are(claims: dict[str, object], path: str, roles: set[str]) -> None:
    assert roles_in(claims, path) == roles


def test_settings_that_are_wrong_are_refused_at_the_start(world: World) -> None:
    for url in ("http://issuer.example/keys", "keys.json", "ftp://issuer.example/keys"):
        with pytest.raises(UserError, match=r"jwks of \[registry.tokens\]"):
            registry_log_in(str(world.file), "", world.settings(jwks=url))
    with pytest.raises(UserError, match="set access_file"):
        registry_log_in("", "", world.settings())
    assert registry_log_in("", "", RegistryTokens()) is None


@pytest.fixture
def server(world: World) -> Iterator[RegistryServer]:
    log_in = registry_log_in(str(world.file), "", world.settings())
    access = WebAccess(OwnNames(("127.0.0.1",)), None, log_in)
    with RegistryServer(f"sqlite:///{world.folder / 'r.db'}", access=access) as found:
        yield found


def test_a_server_takes_them(world: World, server: RegistryServer) -> None:
    def post(subject: str, *roles: str) -> int:
        token = world.issuer.token("ann", roles=list(roles))
        headers = {"authorization": f"Bearer {token}"}
        url = f"{server.url}/subjects/{subject}/versions"
        return httpx.post(url, json={"schema": '"int"'}, headers=headers).status_code

    eventually(lambda: post("mine-a", "team") == 200)
    assert post("mine-a", "readers") == 403
    headers = {"authorization": f"Bearer {world.issuer.token(roles=['team'])}"}
    for _ in range(3):
        assert httpx.get(f"{server.url}/subjects", headers=headers).json() == ["mine-a"]
    assert httpx.get(f"{server.url}/subjects").status_code == 401
