"""The registry without HTTP, on SQLite and PostgreSQL: one node, and several on one store."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from tallymark_schema_registry.catalog.content import Content, Reference
from tallymark_schema_registry.catalog.subject import Subject, parse_subject
from tallymark_schema_registry.decisions.commands import Sent
from tallymark_schema_registry.errors import RegistryError
from tallymark_schema_registry.node.registry import Registry
from tallymark_schema_registry.store.opening import open_store

S = Subject(".", "s")


def record(*fields: str, default: bool = True, name: str = "R") -> Sent:
    kinds = [
        {"name": field, "type": "int", **({"default": 0} if default else {})} for field in fields
    ]
    return Sent(json.dumps({"type": "record", "name": name, "fields": kinds}))


@asynccontextmanager
async def nodes(address: str, count: int = 1) -> AsyncIterator[list[Registry]]:
    """Several processes' registries on one store."""
    async with AsyncExitStack() as stack:
        started = list[Registry]()
        for _ in range(count):
            registry = Registry(open_store(address))
            await registry.start()
            stack.push_async_callback(registry.close)
            started.append(registry)
        yield started


async def refused(awaitable: object) -> RegistryError:
    with pytest.raises(RegistryError) as error:
        await awaitable  # type: ignore[misc]
    return error.value


def test_registering_and_reading_back(database: str) -> None:
    async def main() -> None:
        async with nodes(database) as [node]:
            first = await node.register(S, record("a"), by="ann")
            assert (first.version, first.schema_id, first.by) == (1, 1, "ann")
            assert await node.register(S, Sent("  " + (record("a").text or ""))) == first
            second = await node.register(S, record("a", "b"))
            assert (second.version, second.schema_id) == (2, 2)
            assert (await node.register(Subject(".", "t"), record("b"))).schema_id == 3
            assert await node.version(S, "latest") == second
            assert await node.version(S, "1") == first
            assert await node.look_up(S, record("a")) == first
            assert await node.versions(S) == [1, 2]
            assert await node.subjects() == ["s", "t"]
            assert (await node.by_id(".", 2)).content == second.content
            assert await node.all_versions(offset=1, limit=1) == [second]
            assert await node.uses(".", 1) == [("s", 1)]
            assert await node.max_id(".") == 3
            assert [change["number"] for change in await node.changes(0)] == [1, 2, 3, 4, 5, 6]

    asyncio.run(main())


def test_what_is_refused_leaves_nothing_behind(database: str) -> None:
    async def main() -> None:
        async with nodes(database) as [node]:
            await node.register(S, record("a"))
            number = node.catalog.number
            assert (await refused(node.register(S, record("b", default=False)))).status == 409
            assert (await refused(node.register(S, Sent("{")))).code == 42201
            assert (await refused(node.by_id(".", 2))).code == 40403
            assert await node.check(S, None, record("b", default=False))
            assert not await node.check(S, "latest", record("b"))
            assert node.catalog.number == number

    asyncio.run(main())


@pytest.mark.parametrize("spec", ["0", "-2", "x", "", "1.5", "2147483648", "9" * 14, "²"])
def test_versions_that_are_none(tmp_path: Path, spec: str) -> None:
    async def main() -> None:
        async with nodes(f"sqlite:///{tmp_path / 'registry.db'}") as [node]:
            await node.register(S, record("a"))
            assert (await refused(node.version(S, spec))).code == 42202

    asyncio.run(main())


@pytest.mark.parametrize("subject", ["", "a\nb", "\x00", ":.ctx", "x" * 1001, "\ud800"])
def test_subjects_that_are_refused(tmp_path: Path, subject: str) -> None:
    async def main() -> None:
        async with nodes(f"sqlite:///{tmp_path / 'registry.db'}") as [node]:
            with pytest.raises(RegistryError) as error:
                await node.register(parse_subject(subject), record("a"))
            assert error.value.code == 42208

    asyncio.run(main())


def test_the_longest_names_are_stored(database: str) -> None:
    """PostgreSQL refuses keys above 2,704 bytes: 1,000 characters of four bytes were a 500."""
    random = Random(7)
    name = "".join(chr(random.randrange(0x20000, 0x2A6D0)) for _ in range(1_000))

    async def main() -> None:
        async with nodes(database) as [node]:
            with pytest.raises(RegistryError) as error:
                parse_subject(name)
            assert error.value.code == 42208
            longest = parse_subject(name[:625])
            assert (await node.register(longest, record("a"))).version == 1
            assert (
                await node.set_mode(parse_subject(f":.{name[:623]}:"), "READONLY")
            ) == "READONLY"
            assert (await node.register(parse_subject("x" * 1_000), record("a"))).version == 1

    asyncio.run(main())


def test_references_are_followed(database: str) -> None:
    async def main() -> None:
        async with nodes(database) as [node]:
            await node.register(S, record("a"))
            text = '{"type":"record","name":"X","fields":[{"name":"r","type":"R"}]}'
            sent = Sent(text, references=(Reference("R", "s", -1),))
            user = await node.register(Subject(".", "x"), sent)
            assert user.content.references == (Reference("R", "s", 1),)
            assert await node.referenced_by(S, "1") == [user.schema_id]
            written_out = await node.resolved_text(user)
            assert json.loads(written_out)["fields"][0]["type"] == json.loads(
                record("a").text or ""
            )
            # The same types, written out by the client: it is the version that is there.
            assert await node.look_up(Subject(".", "x"), Sent(written_out)) == user
            assert (await refused(node.delete_version(S, "1"))).code == 42206

    asyncio.run(main())


def test_it_survives_a_restart(database: str) -> None:
    async def main() -> None:
        async with nodes(database) as [node]:
            first = await node.register(S, record("a"))
            await node.set_config(S, {"compatibility": "FULL"})
            await node.set_mode(Subject(".ctx", ""), "READONLY")
            contexts = node.catalog.contexts
        async with nodes(database) as [node]:
            assert await node.version(S, "latest") == first
            assert node.catalog.contexts == contexts
            assert (await node.config(S))["compatibilityLevel"] == "FULL"

    asyncio.run(main())


def test_a_dry_run_changes_nothing(database: str) -> None:
    async def main() -> None:
        async with nodes(database) as [node]:
            known = await node.register(S, record("a"))
            number = node.catalog.number
            there = await node.dry_run(S, record("a"))
            assert (there.would_create, there.view, there.schema_id) == (False, known, 1)
            new = await node.dry_run(S, record("a", "b"))
            assert (new.would_create, new.schema_id, new.version) == (True, 2, 2)
            no = await node.dry_run(S, record("c", default=False))
            assert (no.would_create, no.compatible, no.schema_id) == (False, False, None)
            assert "READER_FIELD_MISSING_DEFAULT_VALUE" in no.messages[0]
            assert node.catalog.number == number

    asyncio.run(main())


def test_one_node_answers_what_another_one_did(database: str) -> None:
    """Each read is asked for right after the change was acknowledged elsewhere."""

    async def main() -> None:
        async with nodes(database, 2) as [one, other]:
            for number in range(1, 20):
                fields = [f"f{field}" for field in range(number)]
                view = await one.register(S, record(*fields))
                assert await other.version(S, "latest") == view
                assert (await other.by_id(".", view.schema_id)).content == view.content
                one, other = other, one
            await one.set_mode(S, "READONLY")
            assert (await refused(other.register(S, record("z")))).code == 42205
            assert await other.delete_mode(S) == "READONLY"
            await one.delete_subject(S)
            assert (await refused(other.versions(S))).code == 40401
            assert await other.delete_subject(S, permanent=True) == list(range(1, 20))
            assert (await refused(one.versions(S, deleted=True))).code == 40401

    asyncio.run(main())


def test_concurrent_registrations_are_linearizable(database: str) -> None:
    """On PostgreSQL two writers once took the same next version, for want of a lock.

    Four nodes on one store, many clients: one id per content, versions and ids without gaps."""

    async def main() -> None:
        async with nodes(database, 4) as all_nodes:
            work = [(Subject(".", f"s{n % 3}"), record(f"f{n % 5}")) for n in range(60)]
            views = await asyncio.gather(
                *(
                    all_nodes[number % 4].register(subject, sent)
                    for number, (subject, sent) in enumerate(work)
                )
            )
            for _, sent in work:
                found = {
                    view.schema_id
                    for view, (_, other) in zip(views, work, strict=True)
                    if other == sent
                }
                assert len(found) == 1
            assert sorted({view.schema_id for view in views}) == [1, 2, 3, 4, 5]
            for subject, _ in work:
                assert await all_nodes[0].versions(subject) == [1, 2, 3, 4, 5]
            for node in all_nodes:
                await node.replica.current()
                assert node.catalog.contexts == all_nodes[0].catalog.contexts

    asyncio.run(main())


def test_of_two_incompatible_schemas_at_once_one_wins(database: str) -> None:
    """Each is compatible with nothing, not with each other: the check and the insert are one step.
    If they were not, both would be versions of the subject."""

    async def main() -> None:
        async with nodes(database, 2) as both:
            for number in range(5):
                subject = Subject(".", f"s{number}")
                results = await asyncio.gather(
                    *(
                        both[one % 2].register(subject, record(f"f{one}", default=False))
                        for one in range(4)
                    ),
                    return_exceptions=True,
                )
                faults = [fault for fault in results if isinstance(fault, RegistryError)]
                assert [fault.status for fault in faults] == [409] * 3
                assert await both[0].versions(subject) == [1]

    asyncio.run(main())


def test_whoever_follows_the_changes_is_woken(database: str) -> None:
    async def main() -> None:
        async with nodes(database, 2) as [one, other]:
            waiting = asyncio.create_task(other.changes(0, wait_s=30))
            assert await other.changes(0, wait_s=0.05) == []
            await one.set_mode(S, "READONLY", by="ann")
            [change] = await waiting
            assert (change["record"], change["by"]) == ("mode-set", "ann")

    asyncio.run(main())


def test_normalizing_makes_one_schema_of_several_texts(database: str) -> None:
    """The order of attributes that Avro gives no meaning, and that of the references, do not
    count."""

    async def main() -> None:
        async with nodes(database) as [node]:
            for name in ("A", "B"):
                await node.register(Subject(".", name), record("x", name=name))
            one, other = Reference("A", "A", 1), Reference("B", "B", 1)
            fields = '"fields":[{"name":"a","type":"A"},{"name":"b","type":"B"}]'
            left = f'{{"type":"record","name":"X",{fields},"p":1,"o":2}}'
            right = f'{{"type":"record","name":"X",{fields},"o":2,"p":1}}'
            first = await node.register(S, Sent(left, references=(other, one)), normalize=True)
            again = await node.register(
                S, Sent(right, references=(one, other, one)), normalize=True
            )
            assert again == first
            assert first.content.references == (one, other)
            as_sent = await node.register(S, Sent(left, references=(other, one)))
            assert as_sent.version == 2

    asyncio.run(main())


def test_an_import_may_give_an_id_again_that_was_permanently_deleted(database: str) -> None:
    """Texts by id are remembered, and that of the deleted schema was answered for the new one."""
    old, new = Content('"int"'), Content('"string"')

    async def main() -> None:
        async with nodes(database, 2) as [one, other]:
            await one.import_version(S, 1, 7, old)
            for node in (one, other):
                assert (await node.by_id(".", 7)).content == old
                assert not await node.check(S, "latest", Sent('"long"'))
            await one.delete_subject(S)
            await one.delete_subject(S, permanent=True)
            await one.import_version(Subject(".", "t"), 1, 7, new)
            for node in (one, other):
                await node.replica.current()
                assert (await node.by_id(".", 7)).content == new
                assert await node.check(Subject(".", "t"), "latest", Sent('"long"'))

    asyncio.run(main())
