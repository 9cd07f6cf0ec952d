"""The registry as a principal sees it: what is hidden is answered as what is not there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final, TypeAlias

import pytest
from memory_store import MemoryStore

from tallymark_schema_registry.access.authorized import (
    ON_VISIBLE,
    WITHHELD,
    WITHOUT_RULE,
    AuthorizedRegistry,
    authorized,
)
from tallymark_schema_registry.access.grants import EVERYBODY, Grant, Grants, Principal, Right
from tallymark_schema_registry.catalog.content import Content, Reference, guid_of
from tallymark_schema_registry.catalog.subject import GLOBAL, Subject
from tallymark_schema_registry.decisions.commands import SchemaView, Sent, VersionView
from tallymark_schema_registry.errors import RegistryError
from tallymark_schema_registry.node.registry import Registry

READ, WRITE, DELETE, ADMIN = Right
MINE, OPEN, SECRET, ABSENT, ALIAS = (
    Subject(".", name) for name in ("mine", "open", "secret", "secret-absent", "open-alias")
)
ELSEWHERE, NOWHERE = Subject(".hidden", "a"), Subject(".nowhere", "a")
FALLS, FALLS_NOT = Subject(".", "falls"), Subject(".", "falls-not")
OWN, EMPTY, PLACE, NO_PLACE = (
    Subject(context, "") for context in (".", ".empty", ".hidden", ".nowhere")
)


def principal(**grants: str | list[str]) -> Principal:
    listed = [
        Grant(Right(right), pattern)
        for right, patterns in grants.items()
        for pattern in ([patterns] if isinstance(patterns, str) else patterns)
    ]
    return Principal("alice", Grants(listed))


ALICE = principal(admin="mine", read=["open*", "falls*", ":.seen:*"])


def text(name: str, *fields: str) -> str:
    """A record with fields that have defaults, but for those that end with "!"."""
    return json.dumps(
        {
            "type": "record",
            "name": name,
            "fields": [
                {"name": field.rstrip("!"), "type": "int"}
                | ({} if field.endswith("!") else {"default": 0})
                for field in fields
            ],
        },
        separators=(",", ":"),
    )


def sent(name: str, *fields: str, refers: tuple[Reference, ...] = ()) -> Sent:
    return Sent(text(name, *fields), references=refers)


TOP_SECRET: Final = sent("TopSecret", "code!")
CONFLICT: Final = sent("Conflict", "other!")


@asynccontextmanager
async def empty() -> AsyncIterator[Registry]:
    registry = Registry(MemoryStore(), lambda: 0)
    await registry.start()
    yield registry
    await registry.close()


@asynccontextmanager
async def world(*, secrets: bool) -> AsyncIterator[Registry]:
    """What alice may read comes first, so that its ids are the same with and without the rest."""
    async with empty() as registry:
        await registry.register(MINE, sent("Mine", "a"), by="boss")
        await registry.register(OPEN, sent("Open", "a"), by="boss")
        await registry.register(OPEN, sent("Open", "a", "b"), by="boss")
        await registry.register(Subject(".seen", "falls"), sent("Falls"), by="boss")
        await registry.set_config(ALIAS, {"alias": "secret"})
        if secrets:
            await registry.register(SECRET, TOP_SECRET, by="boss")
            refers = (Reference("Open", "open", 1),)
            await registry.register(SECRET, sent("TopSecret", "code!", "more", refers=refers))
            await registry.register(ELSEWHERE, sent("Elsewhere"), by="boss")
            for context in (".a", ".hidden", ".z"):
                for name in ("falls", "falls-not", "open"):
                    await registry.register(Subject(context, name), sent("Hidden"), by="boss")
            await registry.set_config(SECRET, {"compatibility": "NONE"})
            await registry.set_config(Subject(".", "secret-alias"), {"alias": "open"})
            await registry.set_mode(SECRET, "READONLY")
            await registry.set_config(PLACE, {"compatibility": "FULL"})
            await registry.set_mode(PLACE, "READONLY")
        yield registry


Ask: TypeAlias = Callable[[Registry], Awaitable[Any]]
SUBJECTS: Final = (
    *(MINE, OPEN, SECRET, ABSENT, ALIAS, Subject(".", "secret-alias")),
    *(ELSEWHERE, NOWHERE, FALLS, FALLS_NOT),
)
PLACES: Final = (*SUBJECTS, OWN, PLACE, NO_PLACE, EMPTY, GLOBAL)
IDS: Final = (*((".", n) for n in (1, 3, 4, 5, 99)), *((c, 1) for c in (".hidden", ".nowhere")))


def call(method: str, *arguments: Any, **more: Any) -> Ask:
    """A request: call a method of the registry."""
    return lambda registry: getattr(registry, method)(*arguments, **more)


def guid(schema: Sent) -> str:
    return guid_of(Content(schema.text or "").md5())


GUIDS: Final = tuple(guid(each) for each in (sent("Mine", "a"), TOP_SECRET, sent("None")))
READS: Final[dict[str, list[Ask]]] = {
    "look_up": [call("look_up", s, TOP_SECRET) for s in SUBJECTS]
    + [call("look_up", s, sent("Hidden"), deleted=True) for s in SUBJECTS]
    + [call("look_up", OPEN, sent("x", refers=(Reference("n", "secret", 1),)))],
    "version": [call("version", s, "latest") for s in SUBJECTS]
    + [call("version", SECRET, "7"), call("version", SECRET, "1", deleted=True)]
    + [call("version", FALLS, "1", deleted=True), call("version", FALLS_NOT, "1", deleted=True)],
    "versions": [call("versions", s) for s in SUBJECTS]
    + [call("versions", SECRET, deleted=True), call("versions", SECRET, deleted_only=True)],
    "subjects": [
        call("subjects"),
        call("subjects", ":*:"),
        call("subjects", "se", deleted=True),
        call("subjects", context=".hidden"),
        call("subjects", ":.hidden:"),
    ],
    "all_versions": [
        call("all_versions", ":*:"),
        call("all_versions", latest_only=True),
        call("all_versions", aliases=True),
        call("all_versions", offset=1, limit=1),
        call("all_versions", offset=2, limit=5),
    ],
    "by_id": [call("by_id", *i) for i in IDS]
    + [call("by_id", ".", n, s) for s in SUBJECTS for n in (1, 2, 4)],
    "by_guid": [call("by_guid", each) for each in (*GUIDS, "none")],
    "ids_of_guid": [call("ids_of_guid", each) for each in (*GUIDS, "none")],
    "uses": [call("uses", *i) for i in IDS]
    + [call("uses", ".", n, subject=s) for s in SUBJECTS for n in (1, 2, 4)],
    "referenced_by": [call("referenced_by", s, "1") for s in SUBJECTS],
    "config": [call("config", s) for s in PLACES]
    + [call("config", s, default_to_global=True) for s in PLACES],
    "mode": [call("mode", s) for s in PLACES]
    + [call("mode", s, default_to_global=True) for s in PLACES],
    "contexts": [call("contexts")],
    "ping": [call("ping")],
    "max_id": [call("max_id", c) for c in (".", ".hidden", ".nowhere")],
}
HIDDEN: Final = (SECRET, ABSENT, ALIAS, Subject(".", "secret-alias"), ELSEWHERE, NOWHERE)
DELETIONS: Final[dict[str, list[Ask]]] = {
    "delete_version": [call("delete_version", s, "1") for s in HIDDEN],
    "delete_subject": [call("delete_subject", s) for s in HIDDEN]
    + [call("delete_subject", s, permanent=True) for s in HIDDEN],
    "restore": [call("restore", s, "1") for s in HIDDEN],
    "delete_config": [call("delete_config", s) for s in (SECRET, ABSENT, ELSEWHERE, PLACE)],
    "delete_mode": [call("delete_mode", s) for s in (SECRET, ABSENT, ELSEWHERE, PLACE)]
    + [call("delete_mode", s, recursive=True) for s in (SECRET, ABSENT, ELSEWHERE)],
}
CHANGES: Final[dict[str, list[Ask]]] = {
    "register": [call("register", s, TOP_SECRET) for s in (*HIDDEN, FALLS)]
    + [
        call("register", MINE, sent("x", refers=(Reference("n", s.qualified, 1),)))
        for s in (SECRET, ABSENT, ELSEWHERE, NOWHERE)
    ],
    "dry_run": [call("dry_run", s, TOP_SECRET) for s in HIDDEN]
    + [call("dry_run", MINE, sent("x", refers=(Reference("n", "secret", -1),)))],
    "check": [call("check", s, None, CONFLICT) for s in HIDDEN]
    + [call("check", OPEN, None, sent("x", refers=(Reference("n", "secret", 1),)))],
    "report": [call("report", s, None, CONFLICT) for s in HIDDEN]
    + [call("report", OPEN, None, sent("x", refers=(Reference("n", "secret", 1),)))],
    "import_version": [call("import_version", s, 1, 1, Content("x")) for s in (SECRET, ABSENT)],
    "set_config": [call("set_config", s, {"alias": "x"}) for s in PLACES[1:]]
    + [call("set_config", s, {}) for s in (SECRET, ABSENT, PLACE, NO_PLACE)],
    "set_mode": [call("set_mode", s, "READONLY") for s in PLACES[1:]],
    "delete_mode": [call("delete_mode", s, recursive=True) for s in (PLACE, NO_PLACE, OWN)],
    "delete_context": [call("delete_context", c) for c in (".", ".hidden", ".nowhere")],
}
ALL_ASKS: Final = [
    ask for kind in (READS, DELETIONS, CHANGES) for asks in kind.values() for ask in asks
]


async def outcome(registry: Registry, ask: Ask) -> Any:
    try:
        found = await ask(registry)
    except RegistryError as error:
        return error.status, error.code, error.message
    return with_what_may_be_read(found)


def with_what_may_be_read(found: Any) -> Any:
    """The clock of the store is no concern here."""
    if isinstance(found, list):
        return [with_what_may_be_read(each) for each in found]
    return replace(found, at_ms=0) if isinstance(found, VersionView) else found


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def running() -> None:
        asyncio.run(test())

    running.__name__, running.__doc__ = test.__name__, test.__doc__
    return running


@pytest.mark.parametrize("method", [*READS, *DELETIONS])
def test_what_is_hidden_is_answered_as_if_it_were_not_there(method: str) -> None:
    """Status, code, message and value are those that everybody gets from a registry that does not
    have it."""

    async def main() -> None:
        async with world(secrets=True) as with_it, world(secrets=False) as without:
            seen = authorized(with_it, ALICE)
            for ask in {**READS, **DELETIONS}[method]:
                assert await outcome(seen, ask) == await outcome(without, ask)

    asyncio.run(main())


@pytest.mark.parametrize("method", CHANGES)
def test_whether_something_hidden_is_there_changes_no_refusal(method: str) -> None:
    async def main() -> None:
        async with world(secrets=True) as with_it, world(secrets=False) as without:
            for ask in CHANGES[method]:
                found = await outcome(authorized(with_it, ALICE), ask)
                assert found == await outcome(authorized(without, ALICE), ask)
                assert found[1] in (40301, 42201), found

    asyncio.run(main())


def test_every_method_has_a_rule() -> None:
    """A new method of the registry would be open to everybody."""
    assert set(WITHOUT_RULE) == {"start", "close", "on_change"}
    ruled = {name for name in vars(AuthorizedRegistry) if not name.startswith("_")}
    ruled -= {"start", "close", "on_change", "catalog"}
    tested = {*READS, *DELETIONS, *CHANGES, "changes", "resolved_text"}
    assert ruled | ON_VISIBLE == tested


@run
async def test_a_method_without_a_rule_is_refused() -> None:
    async with world(secrets=True) as registry:
        error = await refused(authorized(registry, ALICE).close())
        assert error.code == 40301
        assert await registry.versions(MINE) == [1]


@run
async def test_nothing_is_open_to_those_who_may_do_nothing() -> None:
    nobody = Principal("nobody", Grants())
    async with world(secrets=True) as registry:
        before = registry.catalog.number
        for ask in ALL_ASKS:
            found = repr(await outcome(authorized(registry, nobody), ask))
            assert not any(each in found for each in ("boss", "TopSecret", "Open", "Hidden"))
        assert registry.catalog.number == before


@run
async def test_those_who_may_do_everything_ask_the_registry_itself() -> None:
    async with empty() as registry:
        assert authorized(registry, EVERYBODY) is registry
        assert isinstance(authorized(registry, ALICE), AuthorizedRegistry)


async def refused(answer: Awaitable[Any]) -> RegistryError:
    with pytest.raises(RegistryError) as found:
        await answer
    return found.value


@run
async def test_rights_on_what_may_be_read() -> None:
    async with world(secrets=True) as registry:
        seen = authorized(registry, ALICE)
        error = await refused(seen.register(OPEN, sent("x")))
        assert (error.status, error.code) == (403, 40301)
        assert error.message == "alice may not write 'open'"
        assert (await refused(seen.delete_subject(OPEN))).message == "alice may not delete 'open'"
        assert (await refused(seen.set_config(OPEN, {"alias": "x"}))).code == 40301
        writer = authorized(registry, principal(write="mine"))
        assert (await writer.register(MINE, sent("Mine", "a", "b"))).version == 2
        assert (await refused(writer.register(MINE, sent("Mine"), force=True))).code == 40301
        assert (await refused(writer.delete_version(MINE, "1"))).code == 40301
        assert (await seen.register(MINE, CONFLICT, force=True)).version == 3
        deleter = authorized(registry, principal(delete="mine"))
        assert await deleter.delete_version(MINE, "2") == 2
        assert await deleter.restore(MINE, "2") == 2
        assert await deleter.delete_subject(MINE) == [1, 2, 3]
        assert (await refused(deleter.register(MINE, sent("Mine", "w")))).code == 40301


@run
async def test_what_is_done_has_the_name_of_who_does_it_and_no_other() -> None:
    async with world(secrets=False) as registry:
        before = registry.catalog.number
        seen = authorized(registry, ALICE)
        view = await seen.register(MINE, sent("Mine", "a", "b"), by="boss")
        assert view.by == "alice"
        await seen.import_version(MINE, 9, 9, Content(text("Mine", "a", "c")), by="boss")
        await seen.delete_version(MINE, "2", by="boss")
        await seen.restore(MINE, "2", by="boss")
        await seen.delete_subject(MINE, by="boss")
        await seen.set_config(MINE, {"compatibility": "NONE"}, by="boss")
        await seen.delete_config(MINE, by="boss")
        await seen.set_mode(MINE, "READONLY", by="boss")
        await seen.delete_mode(MINE, by="boss")
        assert {change["by"] for change in await registry.changes(before)} == {"alice"}


@run
async def test_an_alias_opens_nothing() -> None:
    """Who could read the name of an alias read, and registered in, whatever it meant."""
    async with world(secrets=True) as registry:
        reader = authorized(registry, principal(admin="open*"))
        assert (await refused(reader.version(ALIAS, "latest"))).code == 40401
        assert (await refused(reader.register(ALIAS, sent("x")))).code == 40301
        assert (await refused(reader.check(ALIAS, None, sent("x")))).code == 40301
        assert (await refused(reader.delete_subject(ALIAS))).code == 40401
        # The alias itself is theirs.
        assert (await reader.config(ALIAS))["alias"] == "secret"
        assert (await reader.delete_config(ALIAS))["alias"] == "secret"
        await registry.set_config(ALIAS, {"alias": "mine"})
        both = authorized(registry, principal(write=["open*", "mine"]))
        assert (await both.version(ALIAS, "latest")).subject == MINE
        assert (await both.register(ALIAS, sent("Mine", "a", "b"))).subject == MINE


@run
async def test_an_alias_of_another_process_is_known_before_something_is_written() -> None:
    """Another process set the alias, this one did not know it yet, and what was allowed for the
    name was done to the subject that it meant."""
    store = MemoryStore()
    here, there = Registry(store), Registry(store)
    await here.start()
    await there.start()
    await there.register(SECRET, TOP_SECRET)
    await there.set_config(ALIAS, {"alias": "secret"})
    seen = authorized(here, principal(write="open*"))
    assert (await refused(seen.register(ALIAS, sent("x")))).code == 40301
    assert (await refused(seen.version(ALIAS, "1"))).code == 40401
    await here.close()
    await there.close()


@run
async def test_no_reason_quotes_what_may_not_be_read() -> None:
    """A schema that refers to a hidden one is compared with it written out, and the reasons name
    its fields."""
    async with world(secrets=True) as registry:
        fields = [{"name": "f", "type": "TopSecret", "default": {"code": 1}}]
        mine = json.dumps({"type": "record", "name": "Mine", "fields": fields})
        await registry.register(MINE, Sent(mine, references=(Reference("TopSecret", "secret", 1),)))
        await registry.set_config(MINE, {"compatibility": "FULL"})
        other = [{"name": "f", "type": json.loads(text("TopSecret", "hidden!"))}]
        against = Sent(json.dumps({"type": "record", "name": "Mine", "fields": other}))
        seen = authorized(registry, ALICE)
        error = await refused(seen.register(MINE, against))
        assert (error.status, error.message.count(WITHHELD)) == (409, 1)
        assert "code" not in error.message
        assert await seen.check(MINE, None, against) == [WITHHELD]
        assert (await seen.report(MINE, None, against)).reasons == [WITHHELD]
        report = await seen.dry_run(MINE, against)
        assert (report.compatible, report.messages, report.diff) == (False, [WITHHELD], [])
        latest = await seen.version(MINE, "latest")
        assert (await refused(seen.resolved_text(latest))).code == 40301
        by_id = await seen.by_id(".", latest.schema_id)
        assert (await refused(seen.resolved_text(by_id))).code == 40301
        # Where all of it may be read, the reasons are shown.
        both = authorized(registry, principal(write=["mine", "secret"]))
        assert "code" in (await refused(both.register(MINE, against))).message
        assert "code" in " ".join(await both.check(MINE, None, against))
        assert "code" in await both.resolved_text(latest)


@run
async def test_a_reference_reaches_nothing_hidden() -> None:
    async with world(secrets=True) as registry:
        inner = (Reference("TopSecret", "secret", 1),)
        await registry.register(OPEN, sent("Open", "a", "b", "c", refers=inner))
        seen = authorized(registry, ALICE)
        for reference in (Reference("Open", "open", 3), Reference("Open", "open", -1)):
            error = await refused(seen.register(MINE, sent("Mine", "z", refers=(reference,))))
            assert error.code == 42201
            assert "no schema reference found" in error.message
        fine = (Reference("Open", "open", 1),)
        assert (await seen.register(MINE, sent("Mine", "z", refers=fine))).version == 2


@run
async def test_an_id_is_seen_through_any_of_its_subjects() -> None:
    async with world(secrets=True) as registry:
        seen = authorized(registry, ALICE)
        assert (await refused(seen.by_id(".", 4))).message == "Schema 4 not found"
        await registry.set_config(MINE, {"compatibility": "NONE"})
        shared = await registry.register(MINE, TOP_SECRET)
        assert shared.schema_id == 4
        assert (await seen.by_id(".", 4)).content == shared.content
        assert await seen.uses(".", 4) == [("mine", 2)]
        hinted: SchemaView = await seen.by_id(".", 4, SECRET)
        assert hinted.subject == MINE
        assert await seen.max_id(".") == 4


@run
async def test_a_name_without_context_is_found_in_what_may_be_read() -> None:
    """Consumers name a topic and know of no contexts; the first context that had the subject was
    one that they may not read."""
    async with world(secrets=True) as registry:
        seen = authorized(registry, ALICE)
        assert (await registry.version(FALLS, "1")).subject == Subject(".a", "falls")
        assert (await seen.version(FALLS, "1")).subject == Subject(".seen", "falls")
        assert (await refused(seen.version(FALLS_NOT, "1"))).code == 40401


@run
async def test_changes_are_those_of_what_may_be_read() -> None:
    async with world(secrets=True) as registry:
        seen = authorized(registry, ALICE)
        found = await seen.changes(0)
        assert {change.get("subject") for change in found} == {
            *(None, "mine", "open", "open-alias", "falls")
        }
        ids = {(each["context"], each["schema_id"]) for each in found if "schema_id" in each}
        assert ids == {(".", 1), (".", 2), (".", 3), (".seen", 1)}
        # Pages that have hidden ones only are passed over.
        last = found[-1]["number"]
        assert registry.catalog.number > last
        assert await seen.changes(last, 1) == []
        waiting = asyncio.ensure_future(seen.changes(last, 1, 30))
        await registry.register(OPEN, sent("Open", "a", "b", "c"))
        assert (await waiting)[0]["record"] in ("schema-added", "version-added")
        assert len(await authorized(registry, principal(read=":*:*")).changes(0)) == len(
            await registry.changes(0)
        )
        before = asyncio.get_running_loop().time()
        assert await seen.changes(registry.catalog.number, 1, 0.05) == []
        assert asyncio.get_running_loop().time() - before >= 0.05


@run
async def test_modes_of_all_subjects_are_for_those_who_have_all() -> None:
    async with world(secrets=True) as registry:
        place = authorized(registry, principal(admin=[":.hidden:", "*"]))
        await place.set_mode(PLACE, "READONLY")
        assert (await refused(place.delete_mode(PLACE, recursive=True))).code == 40301
        await place.set_mode(OWN, "READONLY")
        # It would stop all contexts.
        assert (await refused(place.set_mode(OWN, "readonly_override"))).code == 40301
        whole = authorized(registry, principal(admin=[":*:*"], read="*"))
        assert await whole.set_mode(OWN, "READONLY_OVERRIDE") == "READONLY_OVERRIDE"


@run
async def test_a_hidden_id_is_looked_for_as_long_as_one_that_is_not_there() -> None:
    """An id that nobody knows is asked of the store before the 404, a hidden one was not: the time
    told them apart."""
    asked = list[str]()

    class Watched(MemoryStore):
        def unchanged(self, number: int) -> bool:
            asked.append("unchanged")
            return super().unchanged(number)

        def texts(self, context: str, ids: Any) -> dict[int, str]:
            asked.append("texts")
            return super().texts(context, ids)

    registry = Registry(Watched())
    await registry.start()
    await registry.register(SECRET, TOP_SECRET)
    seen = authorized(registry, ALICE)
    looked = list[list[str]]()
    for schema_id in (1, 2):
        asked.clear()
        assert (await refused(seen.by_id(".", schema_id))).status == 404
        looked.append(list(asked))
    assert looked[0] == looked[1]
    await registry.close()


@run
async def test_what_may_be_read_is_not_written_to() -> None:
    async with world(secrets=True) as registry:
        seen = authorized(registry, ALICE)
        with pytest.raises(AssertionError):
            seen.catalog.apply(999, None)  # type: ignore[arg-type]
