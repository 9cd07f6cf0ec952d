"""The registry as a principal sees it: what is hidden is answered as what is not there."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

import pytest
from catalog_registry import CatalogRegistry

from tallymark_schema_registry.access.asking import WITHHELD, Asking
from tallymark_schema_registry.access.authorized import AuthorizedRegistry, authorized
from tallymark_schema_registry.access.grants import EVERYBODY, Grant, Grants, Principal, Right
from tallymark_schema_registry.catalog.content import Content, Reference, guid_of
from tallymark_schema_registry.catalog.subject import GLOBAL, Subject
from tallymark_schema_registry.decisions.commands import Sent
from tallymark_schema_registry.errors import RegistryError
from tallymark_schema_registry.node.registry import Registry

READ, WRITE, DELETE, ADMIN = Right
MINE, OPEN, SECRET, ABSENT, ALIAS = (
    Subject(".", name) for name in ("mine", "open", "secret", "secret-absent", "open-alias")
)
ELSEWHERE, NOWHERE = Subject(".hidden", "a"), Subject(".nowhere", "a")
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


ALICE = principal(admin="mine", read="open*")


async def world(*, secrets: bool) -> CatalogRegistry:
    """What alice may read comes first, so that its ids are the same with and without the rest."""
    registry = CatalogRegistry()
    await registry.register(MINE, Sent("mine 1"), by="boss")
    await registry.register(OPEN, Sent("open 1"), by="boss")
    await registry.register(OPEN, Sent("open 2"), by="boss")
    await registry.set_config(ALIAS, {"alias": "secret"})
    if secrets:
        await registry.register(SECRET, Sent("top secret"), by="boss")
        refers = (Reference("r", "open", 1),)
        await registry.register(SECRET, Sent("refers", references=refers), by="boss")
        await registry.register(ELSEWHERE, Sent("elsewhere"), by="boss")
        await registry.set_config(SECRET, {"compatibilityLevel": "NONE"})
        await registry.set_mode(SECRET, "READONLY")
        await registry.set_config(PLACE, {"compatibilityLevel": "FULL"})
        await registry.set_mode(PLACE, "IMPORT")
    return registry


Ask: TypeAlias = Callable[[Registry], Awaitable[Any]]
SENT: Final = Sent("top secret")
SUBJECTS: Final = (MINE, OPEN, SECRET, ABSENT, ALIAS, ELSEWHERE, NOWHERE)
PLACES: Final = (*SUBJECTS, OWN, PLACE, NO_PLACE, EMPTY, GLOBAL)
IDS: Final = ((".", 1), (".", 4), (".", 5), (".", 99), (".hidden", 1), (".nowhere", 1))


def call(method: str, *arguments: Any, **more: Any) -> Ask:
    """A request: call a method of the registry."""
    return lambda registry: getattr(registry, method)(*arguments, **more)


def guid(text: str) -> str:
    return guid_of(Content(text).md5())


READS: Final[dict[str, list[Ask]]] = {
    "look_up": [call("look_up", s, SENT) for s in SUBJECTS],
    "version": [call("version", s, "latest") for s in SUBJECTS]
    + [call("version", SECRET, "7"), call("version", SECRET, "1", deleted=True)],
    "versions": [call("versions", s) for s in SUBJECTS],
    "subjects": [
        call("subjects"),
        call("subjects", ":*:"),
        call("subjects", "se"),
        call("subjects", context=".hidden"),
    ],
    "all_versions": [
        call("all_versions", ":*:"),
        call("all_versions", offset=1, limit=1),
        call("all_versions", offset=3, limit=5),
    ],
    "by_id": [call("by_id", *i) for i in IDS] + [call("by_id", ".", 2, s) for s in SUBJECTS],
    "by_guid": [call("by_guid", guid(t)) for t in ("mine 1", "top secret", "no text")],
    "ids_of_guid": [call("ids_of_guid", guid(t)) for t in ("mine 1", "top secret", "none")],
    "max_id": [call("max_id", c) for c in (".", ".hidden", ".nowhere")],
    "uses": [call("uses", *i) for i in IDS] + [call("uses", ".", 2, subject=s) for s in SUBJECTS],
    "referenced_by": [call("referenced_by", s, "1") for s in SUBJECTS],
    "config": [call("config", s) for s in PLACES]
    + [call("config", s, default_to_global=True) for s in PLACES],
    "mode": [call("mode", s) for s in PLACES]
    + [call("mode", s, default_to_global=True) for s in PLACES],
    "contexts": [call("contexts")],
    "ping": [call("ping")],
}
WRITES: Final[dict[str, list[Ask]]] = {
    "register": [call("register", s, SENT) for s in (SECRET, ABSENT, ALIAS, ELSEWHERE)]
    + [
        call("register", MINE, Sent("x", references=(Reference("n", s.qualified, 1),)))
        for s in (SECRET, ABSENT, ELSEWHERE, NOWHERE)
    ],
    "dry_run": [call("dry_run", s, SENT) for s in (SECRET, ABSENT, ALIAS, ELSEWHERE)],
    "check": [call("check", s, None, Sent("a conflict")) for s in (SECRET, ABSENT, ELSEWHERE)],
    "import_version": [call("import_version", s, 1, 1, Content("x")) for s in (SECRET, ABSENT)],
    "delete_version": [call("delete_version", s, "1") for s in SUBJECTS[1:]],
    "delete_subject": [call("delete_subject", s) for s in SUBJECTS[1:]],
    "restore": [call("restore", s, "1") for s in SUBJECTS[1:]],
    "set_config": [call("set_config", s, {"alias": "x"}) for s in PLACES[1:]]
    + [call("set_config", s, {}) for s in (SECRET, ABSENT, PLACE, NO_PLACE)],
    "delete_config": [call("delete_config", s) for s in PLACES[1:]],
    "set_mode": [call("set_mode", s, "READONLY") for s in PLACES[1:]],
    "delete_mode": [call("delete_mode", s) for s in PLACES[1:]]
    + [call("delete_mode", s, recursive=True) for s in PLACES[1:]],
    "delete_context": [call("delete_context", c) for c in (".", ".hidden", ".nowhere")],
}


async def outcome(registry: Registry, ask: Ask) -> Any:
    try:
        return await ask(registry)
    except RegistryError as error:
        return error.status, error.code, error.message


@pytest.mark.parametrize("method", [*READS, *WRITES])
def test_whether_something_hidden_is_there_changes_no_answer(method: str) -> None:
    """Status, code, message and value of every request are those of a registry that does not have
    what is hidden."""

    async def main() -> None:
        for ask in {**READS, **WRITES}[method]:
            with_it, without = await world(secrets=True), await world(secrets=False)
            found = await outcome(authorized(with_it, ALICE), ask)
            assert found == await outcome(authorized(without, ALICE), ask)
            assert "\0" not in repr(found)
            assert "top secret" not in repr(found)

    asyncio.run(main())


@pytest.mark.parametrize("method", READS)
def test_what_is_hidden_is_answered_as_if_it_were_not_there(method: str) -> None:
    """As the registry answers everybody where nothing more is there than alice may read."""

    async def main() -> None:
        for ask in READS[method]:
            hidden = await outcome(authorized(await world(secrets=True), ALICE), ask)
            assert hidden == await outcome(await world(secrets=False), ask)

    asyncio.run(main())


@pytest.mark.parametrize("subject", [SECRET, ABSENT, ALIAS, ELSEWHERE, NOWHERE])
def test_what_is_hidden_cannot_be_deleted_as_if_it_were_not_there(subject: Subject) -> None:
    asks: list[Ask] = [
        lambda r: r.delete_version(subject, "1"),
        lambda r: r.delete_subject(subject),
        lambda r: r.restore(subject, "1"),
    ]

    async def main() -> None:
        for ask in asks:
            hidden = await outcome(authorized(await world(secrets=True), ALICE), ask)
            assert hidden == await outcome(await world(secrets=False), ask)
            assert hidden[1] == 40401

    asyncio.run(main())


def test_every_method_has_a_rule() -> None:
    """A new method of the registry would otherwise be open to everybody, or fail with a 500."""
    public = {
        name
        for name, _ in inspect.getmembers(Registry, inspect.iscoroutinefunction)
        if not name.startswith("_")
    }
    ruled = {
        name
        for each in AuthorizedRegistry.__mro__
        if issubclass(each, Asking)
        for name in vars(each)
    }
    assert public <= ruled
    assert public - {*READS, *WRITES} == {"start", "close", "changes", "resolved_text"}
    for name in public:
        ours = inspect.signature(getattr(AuthorizedRegistry, name))
        assert ours == inspect.signature(getattr(Registry, name)), name


def test_nothing_is_open_to_those_who_may_do_nothing() -> None:
    nobody = Principal("nobody", Grants())

    async def main() -> None:
        registry = await world(secrets=True)
        before = len(registry.log)
        for asks in (*READS.values(), *WRITES.values()):
            for ask in asks:
                found = await outcome(authorized(registry, nobody), ask)
                assert not any(text in repr(found) for text in ("boss", "top secret", "open 1"))
        assert len(registry.log) == before

    asyncio.run(main())


def test_those_who_may_do_everything_ask_the_registry_itself() -> None:
    registry = CatalogRegistry()
    assert authorized(registry, EVERYBODY) is registry
    assert isinstance(authorized(registry, ALICE), AuthorizedRegistry)


async def refused(answer: Awaitable[Any]) -> RegistryError:
    with pytest.raises(RegistryError) as found:
        await answer
    return found.value


def test_rights_on_what_may_be_read() -> None:
    async def main() -> None:
        registry = await world(secrets=True)
        seen = authorized(registry, ALICE)
        error = await refused(seen.register(OPEN, Sent("x")))
        assert (error.status, error.code) == (403, 40301)
        assert error.message == "alice may not write 'open'"
        assert (await refused(seen.delete_subject(OPEN))).message == "alice may not delete 'open'"
        assert (await refused(seen.set_config(OPEN, {"alias": "x"}))).code == 40301
        writer = authorized(registry, principal(write="mine"))
        assert (await writer.register(MINE, Sent("y"))).by == "alice"
        assert (await refused(writer.register(MINE, Sent("z"), force=True))).code == 40301
        assert (await refused(writer.delete_version(MINE, "1"))).code == 40301
        deleter = authorized(registry, principal(delete="mine"))
        assert await deleter.delete_version(MINE, "2") == 2
        assert await deleter.restore(MINE, "2") == 2
        assert (await refused(deleter.register(MINE, Sent("w")))).code == 40301

    asyncio.run(main())


def test_what_is_done_has_the_name_of_who_does_it_and_no_other() -> None:
    async def main() -> None:
        registry = await world(secrets=False)
        registry.by.clear()
        seen = authorized(registry, ALICE)
        await seen.register(MINE, Sent("2"), by="boss")
        await seen.import_version(MINE, 3, 9, Content("x"), by="boss")
        await seen.delete_version(MINE, "2", by="boss")
        await seen.restore(MINE, "2", by="boss")
        await seen.delete_subject(MINE, by="boss")
        await seen.set_config(MINE, {"alias": ""}, by="boss")
        await seen.delete_config(MINE, by="boss")
        await seen.set_mode(MINE, "READONLY", by="boss")
        await seen.delete_mode(MINE, by="boss")
        assert registry.by == ["alice"] * 9

    asyncio.run(main())


def test_an_alias_opens_nothing() -> None:
    """Who could read the name of an alias read, and registered in, whatever it meant."""

    async def main() -> None:
        registry = await world(secrets=True)
        reader = authorized(registry, principal(admin="open*"))
        assert (await refused(reader.version(ALIAS, "latest"))).code == 40401
        assert (await refused(reader.versions(ALIAS))).code == 40401
        assert (await refused(reader.register(ALIAS, Sent("x")))).code == 40301
        assert (await refused(reader.delete_subject(ALIAS))).code == 40401
        # The alias itself is theirs.
        assert await reader.config(ALIAS) == {"alias": "secret"}
        assert await reader.delete_config(ALIAS) == {"alias": "secret"}
        await registry.set_config(ALIAS, {"alias": "mine"})
        both = authorized(registry, principal(write=["open*", "mine"]))
        assert (await both.version(ALIAS, "latest")).subject == MINE
        # Nor does one that is set while somebody waits.
        waiting = authorized(registry, principal(read=["open*", "mine"]))
        answer = asyncio.ensure_future(waiting.version(ALIAS, "latest"))
        registry.catalog.apply(registry.catalog.number + 1, config_of(ALIAS, {"alias": "secret"}))
        assert (await refused(answer)).code == 40401

    asyncio.run(main())


def config_of(subject: Subject, values: dict[str, Any]) -> Any:
    from tallymark_schema_registry.catalog.records import ConfigSet

    return ConfigSet(subject.context, subject.name, values)


def test_an_alias_of_another_process_is_known_before_something_is_written() -> None:
    """Another process set the alias, this one did not know it yet, and what was allowed for the
    name was done to the subject that it meant."""

    class Behind(CatalogRegistry):
        async def mode(self, subject: Subject, *, default_to_global: bool = False) -> str:
            if not self.catalog.context(".").configs:
                await self.set_config(ALIAS, {"alias": "secret"})
            return await super().mode(subject, default_to_global=default_to_global)

    async def main() -> None:
        registry = Behind()
        await registry.register(SECRET, Sent("top secret"))
        seen = authorized(registry, principal(write="open*"))
        assert (await refused(seen.register(ALIAS, Sent("x")))).code == 40301

    asyncio.run(main())


def test_no_reason_quotes_what_may_not_be_read() -> None:
    """A schema that refers to a hidden one is compared with it written out, and the reasons name
    its fields."""

    async def main() -> None:
        registry = await world(secrets=True)
        refers = (Reference("s", "secret", 1),)
        await registry.register(MINE, Sent("quotes top secret", references=refers))
        seen = authorized(registry, ALICE)
        sent = Sent("a conflict")
        error = await refused(seen.register(MINE, sent))
        assert (error.status, error.message.count(WITHHELD)) == (409, 1)
        assert "top secret" not in error.message
        assert await seen.check(MINE, None, sent) == [WITHHELD]
        run = await seen.dry_run(MINE, sent)
        assert (run.compatible, run.messages, run.diff) == (False, [WITHHELD], [])
        error = await refused(seen.resolved_text(await seen.version(MINE, "latest")))
        assert error.code == 40301
        # Where all of it may be read, the reasons are shown.
        both = authorized(registry, principal(write=["mine", "secret"]))
        assert "top secret" in (await refused(both.register(MINE, sent))).message
        assert "top secret" in (await both.check(MINE, None, sent))[0]
        assert await both.resolved_text(await both.version(MINE, "1")) == "resolved mine 1"

    asyncio.run(main())


def test_a_reference_reaches_nothing_hidden() -> None:
    async def main() -> None:
        registry = await world(secrets=True)
        inner = (Reference("s", "secret", 1),)
        await registry.register(OPEN, Sent("through", references=inner))
        seen = authorized(registry, ALICE)
        for reference in (Reference("o", "open", 3), Reference("o", "open", -1)):
            error = await refused(seen.register(MINE, Sent("x", references=(reference,))))
            assert error.code == 42201
            assert 'for subject "open"' in error.message
        fine = (Reference("o", "open", 1),)
        assert await seen.register(MINE, Sent("y", references=fine))

    asyncio.run(main())


def test_an_id_is_seen_through_any_of_its_subjects() -> None:
    async def main() -> None:
        registry = await world(secrets=True)
        seen = authorized(registry, ALICE)
        assert (await refused(seen.by_id(".", 4))).message == "Schema 4 not found"
        shared = await registry.register(MINE, Sent("top secret"))
        assert shared.schema_id == 4
        assert (await seen.by_id(".", 4)).content.text == "top secret"
        assert await seen.uses(".", 4) == [("mine", 2)]
        assert (await seen.by_id(".", 4, SECRET)).subject is None
        assert await seen.max_id(".") == 4

    asyncio.run(main())


def test_changes_are_those_of_what_may_be_read() -> None:
    async def main() -> None:
        registry = await world(secrets=True)
        seen = authorized(registry, ALICE)
        found = await seen.changes(0)
        assert {change.get("subject") for change in found} <= {None, "mine", "open", "open-alias"}
        assert {change["schema_id"] for change in found if "schema_id" in change} == {1, 2, 3}
        # A page that has hidden ones only is passed over.
        last = found[-1]["number"]
        assert len(registry.log) > last
        assert await seen.changes(last, 1) == []
        await registry.register(OPEN, Sent("open 3"))
        assert {change["schema_id"] for change in await seen.changes(last, 1)} <= {4, 5, 6}
        everything = authorized(registry, principal(read=":*:*"))
        assert await everything.changes(0) == registry.log

    asyncio.run(main())


def test_modes_of_all_subjects_are_for_those_who_have_all() -> None:
    async def main() -> None:
        registry = await world(secrets=True)
        place = authorized(registry, principal(admin=[":.hidden:", "*"]))
        await place.set_mode(PLACE, "READONLY")
        assert (await refused(place.delete_mode(PLACE, recursive=True))).code == 40301
        await place.set_mode(OWN, "READONLY")
        # It would stop all contexts.
        assert (await refused(place.set_mode(OWN, "readonly_override"))).code == 40301
        whole = authorized(registry, principal(admin=":*:*", read="*"))
        await whole.set_mode(OWN, "READONLY_OVERRIDE")

    asyncio.run(main())


def test_a_request_has_no_way_around() -> None:
    async def main() -> None:
        seen = authorized(await world(secrets=True), ALICE)
        for answer in (seen.start, seen.close):
            with pytest.raises(AssertionError):
                await answer()
        with pytest.raises(AssertionError):
            _ = seen.catalog

    asyncio.run(main())
