"""Comparisons: what others do meanwhile, many versions, and versions that are not valid now."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tallymark_schema_registry import levels
from tallymark_schema_registry.catalog.content import Reference
from tallymark_schema_registry.catalog.subject import Subject
from tallymark_schema_registry.decisions.commands import Sent
from tallymark_schema_registry.errors import RegistryError
from tallymark_schema_registry.node import understanding
from tallymark_schema_registry.node.registry import Registry
from tallymark_schema_registry.schemas import Schema, parse_schema
from tallymark_schema_registry.store.opening import open_store

S = Subject(".", "s")


def with_field(name: str, kind: str = "int", default: object = 0) -> Sent:
    field = {"name": name, "type": kind, "default": default}
    return Sent(json.dumps({"type": "record", "name": "R", "fields": [field]}))


def play(tmp_path: Path, main: Callable[[Registry], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        registry = Registry(open_store(f"sqlite:///{tmp_path / 'registry.db'}"))
        await registry.start()
        try:
            await main(registry)
        finally:
            await registry.close()

    asyncio.run(run())


def comparing(
    monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], Coroutine[Any, Any, object]]
) -> list[int]:
    """``meanwhile`` happens on the event loop during the first comparison, which is in a thread and
    waits for it; every comparison is counted."""
    compare, calls = levels.findings, list[int]()
    loop = asyncio.get_running_loop()

    def slow(*arguments: Any, **more: Any) -> object:
        calls.append(len(calls))
        if len(calls) == 1:
            asyncio.run_coroutine_threadsafe(meanwhile(), loop).result(timeout=20)
        return compare(*arguments, **more)

    monkeypatch.setattr(understanding, "findings", slow)
    monkeypatch.setattr(understanding, "FEW", -1)
    return calls


def test_others_register_while_schemas_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comparison held the lock of all writers: after 10 s of it they got 500."""

    async def main(registry: Registry) -> None:
        await registry.register(S, with_field("a"))
        comparing(monkeypatch, lambda: registry.register(Subject(".", "other"), Sent('"int"')))
        await registry.register(S, with_field("b"))
        assert await registry.versions(S) == [1, 2]
        assert await registry.versions(Subject(".", "other")) == [1]

    play(tmp_path, main)


def test_who_was_first_meanwhile_is_compared_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was compared before the transaction is compared again where it is no longer the last."""

    async def main(registry: Registry) -> None:
        async def another() -> None:
            await registry.set_config(S, {"compatibility": "NONE"})
            await registry.register(S, with_field("a", "string", ""))
            await registry.set_config(S, {"compatibility": "BACKWARD"})

        await registry.register(S, with_field("a"))
        calls = comparing(monkeypatch, another)
        with pytest.raises(RegistryError) as refused:
            await registry.register(S, with_field("a", "long"))
        assert refused.value.status == 409
        assert await registry.versions(S) == [1, 2]
        assert len(calls) >= 2

    play(tmp_path, main)


def test_what_is_deleted_meanwhile_is_not_compared_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main(registry: Registry) -> None:
        async def deletes() -> None:
            await registry.delete_version(S, "1")
            await registry.delete_version(S, "1", permanent=True)

        await registry.register(S, with_field("a"))
        comparing(monkeypatch, deletes)
        assert (await registry.register(S, with_field("a", "string", ""))).version == 2
        assert await registry.versions(S, deleted=True) == [2]

    play(tmp_path, main)


def wide(number: int) -> Sent:
    """40 fields, 3.4 kB; each number is another schema, compatible with all others."""
    fields = [
        {
            "name": f"field_{n}",
            "type": ["null", "string"] if n % 3 else "long",
            "default": None if n % 3 else 0,
            "doc": f"what the field {n} says of {number if n == 7 else 'it'}, in a few words",
        }
        for n in range(40)
    ]
    return Sent(json.dumps({"type": "record", "name": "Wide", "fields": fields}))


def test_hundreds_of_versions_are_compared_also_by_a_node_that_just_started(
    tmp_path: Path,
) -> None:
    """The first registration after a restart had to parse all versions and was refused with 42201,
    "it is too large". Other requests are answered while it compares."""
    count, level = 500, "FULL_TRANSITIVE"

    async def fill(registry: Registry) -> None:
        await registry.set_config(S, {"compatibility": "NONE"})
        for number in range(count):
            await registry.register(S, wide(number))
        await registry.set_config(S, {"compatibility": level})

    async def compare(registry: Registry) -> None:
        number = 1_000
        for _ in range(2):
            number += 1
            asked = asyncio.create_task(registry.register(S, wide(number)))
            answered = 0
            while not asked.done():
                await registry.version(S, "1")
                await asyncio.sleep(0.001)
                answered += 1
            assert (await asked).version == count + number - 1_000
            assert answered > 3

    play(tmp_path, fill)
    play(tmp_path, compare)


def test_versions_are_read_by_one_query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fill(registry: Registry) -> None:
        await registry.set_config(S, {"compatibility": "FULL_TRANSITIVE"})
        for number in range(20):
            await registry.register(S, wide(number))

    async def compare(registry: Registry) -> None:
        store = registry._shell._store
        asked = list[int]()
        read = store.texts

        def texts(context: str, ids: Any) -> dict[int, str]:
            asked.append(len(ids))
            return read(context, ids)

        monkeypatch.setattr(store, "texts", texts)
        await registry.register(S, wide(30))
        assert asked == [20]
        await registry.register(S, wide(31))
        assert asked == [20]

    play(tmp_path, fill)
    play(tmp_path, compare)


def test_two_that_miss_the_same_text_share_a_query(tmp_path: Path) -> None:
    async def fill(registry: Registry) -> None:
        await registry.register(S, wide(1))

    async def read(registry: Registry) -> None:
        store = registry._shell._store
        asked, read = list[int](), store.texts
        gate = threading.Event()

        def texts(context: str, ids: Any) -> dict[int, str]:
            asked.append(len(ids))
            gate.wait(20)
            return read(context, ids)

        store.texts = texts  # type: ignore[method-assign]
        tasks = [asyncio.create_task(registry.by_id(".", 1)) for _ in range(20)]
        await asyncio.sleep(0.05)
        tasks[0].cancel()
        gate.set()
        views = await asyncio.gather(*tasks[1:])
        assert len({view.content.text for view in views}) == 1
        assert asked == [1]

    play(tmp_path, fill)
    play(tmp_path, read)


def test_a_stored_version_that_is_not_valid_any_more_is_compared_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One old version with a default that does not fit made every further registration of its
    subject fail, with 42201 about a schema that nobody had sent."""
    field = '{"name":"a","type":"int","default":"no number"}'
    old = f'{{"type":"record","name":"R","fields":[{field}]}}'

    def lenient(text: str, budget: Any = None, references: Any = (), stored: bool = True) -> Schema:
        return parse_schema(text, budget, references, True)

    async def fill(registry: Registry) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(understanding, "parse_schema", lenient)
            await registry.register(S, Sent(old))

    async def main(registry: Registry) -> None:
        with pytest.raises(RegistryError) as refused:
            await registry.register(Subject(".", "t"), Sent(old))
        assert refused.value.code == 42201
        assert (await registry.register(S, with_field("b"))).version == 2
        # It is there, so sending it again changes nothing.
        assert (await registry.register(S, Sent(old))).version == 1

    play(tmp_path, fill)
    play(tmp_path, main)


def test_a_default_that_is_no_symbol_is_warned_of(tmp_path: Path) -> None:
    """It is taken, as Java takes it, and who reads old data gets an error: the report of a check
    promised a warning, and had none."""
    colour = {"type": "enum", "name": "C", "symbols": ["RED"]}
    field = {"name": "c", "type": colour, "default": "BLUE"}
    sent = Sent(json.dumps({"type": "record", "name": "R", "fields": [field]}))

    async def main(registry: Registry) -> None:
        for _ in range(2):  # as the first version, and compared with one
            report = await registry.report(S, None, sent)
            assert report.reasons == []
            assert [text for text in report.warnings if "BLUE" in text or "'c'" in text], report
            await registry.register(S, with_field("b"))

    play(tmp_path, main)


def test_a_parsed_schema_counts_with_all_that_it_refers_to(tmp_path: Path) -> None:
    """A hundred characters that refer to a large schema keep all of that in memory. It was counted
    as a hundred characters, so that a thousand of them could take 600 MB."""
    fields = [{"name": f"f{number}", "type": "int"} for number in range(500)]
    large = Sent(json.dumps({"type": "record", "name": "L", "fields": fields}))
    reference = Reference("L", "large", 1)

    async def main(registry: Registry) -> None:
        await registry.register(Subject(".", "large"), large)
        cache = registry._shell.understanding._parsed
        await registry.register(S, Sent('"L"', references=(reference,)))
        before = cache.size
        small = Sent('{"type":"array","items":"L"}', references=(reference,))
        await registry.register(Subject(".", "t"), small)
        assert cache.size - before > len(large.text or "") / 2

    play(tmp_path, main)
