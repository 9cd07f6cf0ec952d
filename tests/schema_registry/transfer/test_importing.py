"""Imports that meet something: other schemas, other registries, Ctrl-C, refusals."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from memory_registry import MemoryRegistry, exported, import_once, version
from registry_snapshots import text_of

from tallymark.errors import ConnectError, UserError
from tallymark.serialization import RegistryError
from tallymark_schema_registry.catalog.content import Reference, sorted_json
from tallymark_schema_registry.transfer.importing import ImportRun
from tallymark_schema_registry.transfer.plan import plan, wrong_after
from tallymark_schema_registry.transfer.reading import read_registry
from tallymark_schema_registry.transfer.remote import RemoteRegistry
from tallymark_schema_registry.transfer.snapshot import Snapshot, Version


def snapshot(*versions: Version, **more: Any) -> Snapshot:
    """A registry with ``versions``, else as it is when it is new."""
    made = Snapshot(configs={"": {"compatibilityLevel": "BACKWARD"}}, modes={"": "READWRITE"})
    for one in versions:
        made.add(one)
    made.configs |= more.pop("configs", {})
    made.modes |= more.pop("modes", {})
    return made


def holding(held: Snapshot, **options: Any) -> MemoryRegistry:
    """A registry that holds this already."""
    server = MemoryRegistry(**options)
    server.held = held
    return server


REF = Reference("x.R9", "late", 1)
LATE = version("late/1", 9)
REFERS = version("early/1", 1, text_of(1, "x.R9"), references=(REF,))


def test_what_is_referred_to_comes_first() -> None:
    """Its id may be higher: ids tell nothing about the order."""
    server = MemoryRegistry()
    assert import_once(snapshot(REFERS, LATE), server).failed == []
    posts = [asked for asked in server.asked if asked.startswith("POST")]
    assert posts == ["POST /subjects/late/versions", "POST /subjects/early/versions"]


def test_a_deleted_version_is_registered_then_deleted_even_if_it_was_referred_to() -> None:
    """The one that refers is deleted first: a registry keeps what live schemas refer to."""
    gone = [version("late/1", 9, deleted=True)]
    gone.append(version("early/1", 1, text_of(1, "x.R9"), references=(REF,), deleted=True))
    server = MemoryRegistry()
    assert import_once(snapshot(*gone), server).failed == []
    assert [asked for asked in server.asked if asked.startswith("DELETE")] == [
        "DELETE /subjects/early/versions/1",
        "DELETE /subjects/late/versions/1",
    ]


def test_a_schema_that_came_back_after_its_deletion_keeps_both_numbers() -> None:
    """The registry answers a known schema with the version that has it: so version 1 must be
    deleted before version 3 comes, which has the same schema. Also if an import was killed between
    the registration of version 1 and its deletion."""
    source = snapshot(version("s/1", 5, deleted=True), version("s/2", 6), version("s/3", 5))
    server = MemoryRegistry()
    assert import_once(source, server).failed == []
    assert exported(read_registry(RemoteRegistry(server))) == exported(source)
    killed = holding(snapshot(version("s/1", 5), version("s/2", 6), modes={"": "IMPORT"}))
    import_once(source, killed)
    assert exported(read_registry(RemoteRegistry(killed))) == exported(source)


@pytest.mark.parametrize("subject", ["s", "a", "z"])
def test_a_schema_that_came_back_may_have_been_referred_to_before(subject: str) -> None:
    """Version 1 was to be deleted before version 3 comes, which has the same schema. But version 2,
    deleted too, refers to it: the registry refused, and the import left version 3 out."""
    ref = Reference("x.R5", "s", 1)
    place = f"{subject}/2" if subject == "s" else f"{subject}/1"
    refers = version(place, 6, text_of(1, "x.R5"), references=(ref,), deleted=True)
    source = snapshot(version("s/1", 5, deleted=True), refers, version("s/3", 5))
    server = MemoryRegistry()
    assert import_once(source, server).failed == []
    assert exported(read_registry(RemoteRegistry(server))) == exported(source)


@pytest.mark.parametrize(
    ("there", "says"),
    [
        (snapshot(version("s/1", 2)), "s version 1: another schema in the target (id 2, here 1)"),
        (snapshot(version("s/1", 2, text_of(1))), "s version 1: id 2 in the target, here 1"),
        (snapshot(version("t/1", 1, '"int"')), "s version 1: id 1 is another schema in the target"),
        (snapshot(version("s/1", 1, deleted=True)), "s version 1: softly deleted in the target"),
        (
            snapshot(configs={"s": {"compatibilityLevel": "FULL"}}),
            "subject s: configured otherwise",
        ),
        (
            snapshot(modes={"s": "READONLY"}),
            "subject s: mode READONLY in the target, here READWRITE",
        ),
        (
            snapshot(version("t/1", 9), configs={"": {"compatibilityLevel": "FULL"}}),
            "context .: configured otherwise in the target: compatibilityLevel FULL",
        ),
        (snapshot(modes={"": "READONLY"}), "context .: mode READONLY in the target"),
    ],
)
def test_what_contradicts_is_a_conflict(there: Snapshot, says: str) -> None:
    settings = {"configs": {"s": {"compatibilityLevel": "NONE"}}, "modes": {"s": "READWRITE"}}
    (conflict,) = plan(snapshot(version("s/1", 1), **settings), there).conflicts
    assert f"{conflict.where}: {conflict.what}".startswith(says)


def test_a_conflict_shows_both_texts() -> None:
    there, here = (
        snapshot(version("s/1", 1, f'{{"type":"fixed","name":"F","size":{size}}}'))
        for size in (4, 8)
    )
    (conflict,) = plan(here, there).conflicts
    assert conflict.difference.splitlines()[0] == "different schema"
    assert '-  "size": 4' in conflict.difference
    assert '+  "size": 8' in conflict.difference


def test_a_source_that_contradicts_itself() -> None:
    one_id = plan(snapshot(version("a/1", 1), version("b/1", 1, '"int"')), snapshot())
    assert "id 1 is another schema in a version 1" in one_id.conflicts[0].what
    first, second = Reference("x.R9", "b", 1), Reference("x.R9", "a", 1)
    circle = plan(
        snapshot(version("a/1", 1, references=(first,)), version("b/1", 2, references=(second,))),
        snapshot(),
    )
    assert "a circle" in circle.conflicts[0].what
    itself = plan(snapshot(version("a/1", 1, references=(second,))), snapshot())
    assert "a circle" in itself.conflicts[0].what


def test_the_same_schema_written_by_another_registry_is_no_conflict() -> None:
    """Karapace sorts the keys of what it stores, others keep needless namespaces."""
    stored = '{"type":"record","name":"R","namespace":"a","fields":[{"name":"f","type":"string"}]}'
    wordy = (
        '{"fields": [{"name": "f", "order": "ascending", "type": {"type": "string"}}],'
        ' "name": "a.R", "type": "record"}'
    )
    rules = {"metadata": sorted_json({"tags": None, "properties": {"a": "1"}})}
    bare = {"metadata": sorted_json({"properties": {"a": "1"}})}
    source, target = (
        snapshot(version("s/1", 1, wordy, **rules)),
        snapshot(version("s/1", 1, stored, **bare)),
    )
    assert plan(source, target).empty
    for different in (
        stored.replace('"f"', '"g"'),
        stored.replace('"a"', '"b"'),
        stored.replace('"string"', '"bytes"'),
        stored.replace('"R"', '"R","doc":"d"'),
    ):
        assert plan(source, snapshot(version("s/1", 1, different, **bare))).conflicts
    assert plan(source, snapshot(version("s/1", 1, stored))).conflicts, "other metadata"


def test_defaults_are_compared_as_json() -> None:
    """In Python 1 == True."""
    one, other = (
        snapshot(version("s/1", 1, f'{{"type":"int","x":{value}}}')) for value in ("1", "true")
    )
    assert plan(one, other).conflicts


def test_what_only_the_target_has_is_left_alone() -> None:
    there = snapshot(version("s/2", 7), version("other/1", 8))
    made = plan(snapshot(version("s/1", 1)), there)
    assert made.extra == [("other", 1), ("s", 2)]
    assert [one.place for one in made.register] == [("s", 1)]
    server = holding(there)
    import_once(snapshot(version("s/1", 1)), server)
    assert sorted(server.held.versions) == [("other", 1), ("s", 1), ("s", 2)]


def test_ctrl_c_puts_the_modes_back_and_the_next_import_goes_on() -> None:
    source = snapshot(
        *(version(f"s{n}/1", n) for n in range(1, 200)), *(version(f":.c:s/{n}", n) for n in (1, 2))
    )
    stop, server = threading.Event(), MemoryRegistry()
    registry = RemoteRegistry(server)
    target = read_registry(registry)

    def tick(done: Any) -> None:
        if done.registered == 20:
            stop.set()

    done = ImportRun(registry, plan(source, target), target, stop, tick).run()
    assert done.stopped
    assert 20 <= done.registered < 100
    assert server.held.modes == {"": "READWRITE"}
    left = plan(source, read_registry(registry))
    assert left.same == done.registered
    import_once(source, server)
    assert exported(read_registry(registry)) == exported(source)


def test_a_config_without_a_level_is_the_same_with_the_level_in_force() -> None:
    """Some registries answer with the level that holds where none is set."""
    here = snapshot(configs={"s": {"alias": "t"}})
    there = snapshot(configs={"s": {"alias": "t", "compatibilityLevel": "FULL"}})
    assert plan(here, there).empty
    assert plan(there, here).configs == {"s": there.configs["s"]}


def test_a_subject_with_a_mode_of_its_own_is_imported_into_too() -> None:
    """Its own mode goes before the context's: it must be IMPORT itself, and then what it was."""
    there = snapshot(version("s/1", 1), modes={"s": "READONLY"})
    source = snapshot(version("s/1", 1), version("s/2", 2), modes={"s": "READONLY"})
    server = holding(there)
    assert import_once(source, server).failed == []
    assert server.held == source


class Refusing(MemoryRegistry):
    """Answers registrations of some subjects with an error."""

    status = 422

    def request(self, method: str, path: str, body: Any = None) -> Any:
        if method == "POST" and "bad" in path:
            raise RegistryError(self.status, self.status * 100 + 1, "Invalid schema: no")
        return super().request(method, path, body)


def test_what_is_refused_is_told_and_the_rest_goes_on() -> None:
    server = Refusing()
    source = snapshot(version("bad/1", 1), version("good/1", 2))
    done = import_once(source, server)
    (failed,) = done.failed
    assert failed.startswith("bad version 1: the schema registry answered 42201: Invalid schema")
    assert done.registered == 1
    assert list(wrong_after(source, server.held)) == ["bad version 1: not there"]
    assert server.held.modes[""] == "READWRITE"


def test_a_registry_that_fails_ends_the_import_and_gets_its_modes_back() -> None:
    server = Refusing()
    server.status = 500
    with pytest.raises(RegistryError):
        import_once(snapshot(version("bad/1", 1), modes={"": "READONLY"}), server)
    assert server.held.modes == {"": "READWRITE"}


@pytest.mark.parametrize(
    ("status", "error"), [(405, UserError), (404, UserError), (422, RegistryError)]
)
def test_a_registry_that_has_no_mode_import_says_so(status: int, error: type[Exception]) -> None:
    """And not that it is still in that mode."""

    class Without(MemoryRegistry):
        def request(self, method: str, path: str, body: Any = None) -> Any:
            if method == "PUT" and path.startswith("/mode"):
                raise RegistryError(status, status, "Method Not Allowed")
            return super().request(method, path, body)

    with pytest.raises(error, match=r"has no mode IMPORT|422"):
        import_once(snapshot(version("s/1", 1)), Without())


def test_a_mode_that_cannot_be_put_back_is_told() -> None:
    """Every registration of others is refused until somebody sets it."""

    class Gone(MemoryRegistry):
        def request(self, method: str, path: str, body: Any = None) -> Any:
            if method == "POST" or self.held.modes[""] == "IMPORT":
                raise ConnectError("x", "connect", "refused")
            return super().request(method, path, body)

    with pytest.raises(UserError, match="connect failed: refused; the registry is still") as caught:
        import_once(snapshot(version("s/1", 1)), Gone())
    assert "tallymark schema mode --set READWRITE" in str(caught.value)
    assert caught.value.exit_code == 3


def test_another_id_than_was_asked_for_is_a_failure() -> None:
    """A registry that takes no notice of ``id`` has its own ids."""

    class Own(MemoryRegistry):
        def request(self, method: str, path: str, body: Any = None) -> Any:
            answer = super().request(method, path, body)
            return {"id": 77} if method == "POST" else answer

    (failed,) = import_once(snapshot(version("s/1", 1)), Own()).failed
    assert failed == "s version 1: it got the id 77, not 1"


def test_the_level_of_the_default_context_is_set_first_and_the_rest_last() -> None:
    """While the target is empty its level is nobody's; an alias would send registrations
    elsewhere."""
    configs = {"": {"compatibilityLevel": "FULL", "normalize": True}, "s": {"alias": "t"}}
    server = MemoryRegistry()
    import_once(snapshot(version("s/1", 1), configs=configs), server)
    assert server.held.configs == configs
    changes = [asked for asked in server.asked if not asked.startswith("GET")]
    assert changes == [
        "PUT /config",
        "PUT /mode?force=true",
        "POST /subjects/s/versions",
        "PUT /mode?force=true",
        "PUT /config/s",
        "PUT /config",
    ]


@pytest.mark.parametrize("contexts", [True, False])
@pytest.mark.parametrize("bulk", [True, False])
@pytest.mark.parametrize("page", [1000, 10])
def test_any_registry_can_be_read(bulk: bool, contexts: bool, page: int) -> None:
    """Without ``GET /schemas``, without contexts, with smaller pages than were asked for: those
    ended the reading once, as if a short page were the last one."""
    versions = [version(f"s{n % 7}/{n}", n, deleted=n % 5 == 0) for n in range(1, 40)]
    if contexts:
        versions += [version(":.c:s/1", 1), version(":.d:t/3", 2, deleted=True)]
    held = snapshot(*versions, configs={"s1": {"compatibilityLevel": "NONE"}})
    if contexts:
        held.modes[":.c:"] = "READONLY"
    server = holding(held, bulk=bulk, contexts=contexts, page=page)
    assert read_registry(RemoteRegistry(server)) == held
    assert any("/versions/" in asked for asked in server.asked) is not bulk


@pytest.mark.parametrize("page", [1000, 3])
def test_our_registry_tells_where_something_is_configured(page: int) -> None:
    """Also for subjects without a version: a level is often set before the first one. Nobody else
    is asked for."""
    held = snapshot(
        *(version(f"s{n}/1", n) for n in range(1, 20)),
        configs={"later": {"compatibilityLevel": "NONE"}, ":.c:": {"compatibilityLevel": "FULL"}},
        modes={"s7": "READONLY", ":.c:later": "READONLY"},
    )
    server = holding(held, changes=True, page=page)
    assert read_registry(RemoteRegistry(server)) == held
    configs = [asked for asked in server.asked if asked.startswith("GET /config")]
    assert len(configs) == 5


def test_a_registry_that_counts_no_pages_is_read_once() -> None:
    class AllAtOnce(MemoryRegistry):
        def _schemas(self, query: dict[str, str]) -> list[Any]:
            return super()._schemas(query | {"offset": "0", "limit": "1000"})

    held = snapshot(*(version(f"s/{n}", n) for n in range(1, 1001)))
    server = AllAtOnce()
    server.held = held
    assert read_registry(RemoteRegistry(server)) == held


def test_a_registry_that_changes_meanwhile_is_read_again() -> None:
    class Busy(MemoryRegistry):
        left = 2

        def _schemas(self, query: dict[str, str]) -> list[Any]:
            answer = super()._schemas(query)
            if query["deleted"] == "true" and self.left:
                self.left -= 1
                self.held.add(version(f"s/{10 - self.left}", 10 - self.left))
            return answer

    server = Busy()
    server.held = snapshot(version("s/1", 1))
    assert sorted(read_registry(RemoteRegistry(server)).versions) == [("s", 1), ("s", 9), ("s", 10)]
    server.left = 8
    with pytest.raises(UserError, match="changes while it is read; set its mode to READONLY"):
        read_registry(RemoteRegistry(server))
