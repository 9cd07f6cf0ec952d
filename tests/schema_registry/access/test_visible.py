"""The visible part of a catalog is the catalog of a registry that never had the rest."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from decider import Decider, content, sent, subject
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark_schema_registry.access.grants import Grant, Grants, Principal, Right
from tallymark_schema_registry.access.visible import VisibleCatalog
from tallymark_schema_registry.catalog.catalog import Catalog
from tallymark_schema_registry.catalog.content import guid_of
from tallymark_schema_registry.catalog.records import (
    ContextRemoved,
    Record,
    SchemaAdded,
    SchemaRemoved,
    VersionAdded,
)
from tallymark_schema_registry.catalog.subject import Subject
from tallymark_schema_registry.decisions import by_id, configuring, lists, modes
from tallymark_schema_registry.decisions.commands import (
    Check,
    Decision,
    DeleteConfig,
    DeleteMode,
    DeleteSubject,
    DeleteVersion,
    Import,
    LookUp,
    Parse,
    Register,
    RestoreVersion,
    SetConfig,
    SetMode,
)
from tallymark_schema_registry.decisions.decide import decide
from tallymark_schema_registry.errors import RegistryError

NAMES = ["s", "t", ":.c:s", ":.c:t", ":.d:s"]
SUBJECTS = st.sampled_from(NAMES).map(subject)
PLACES = st.sampled_from([*NAMES, "", ":.c:", ":.d:", ":.__GLOBAL:"]).map(subject)
TEXTS = st.sampled_from(["a", "b", "c"])
REFERENCES = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from([-1, 1, 2])), max_size=1)
SPECS = st.sampled_from(["1", "2", "latest"])
FLAGS = st.booleans()
COMMANDS = st.one_of(
    st.builds(
        lambda name, text, references: Register(name, sent(text, *references), force=True),
        *(SUBJECTS, TEXTS, REFERENCES),
    ),
    st.builds(
        lambda name, version, number, text: Import(name, version, number, content(text)),
        *(SUBJECTS, st.integers(1, 3), st.integers(1, 4), TEXTS),
    ),
    st.builds(DeleteVersion, SUBJECTS, SPECS, FLAGS),
    st.builds(DeleteSubject, SUBJECTS, FLAGS),
    st.builds(
        SetConfig,
        PLACES,
        st.sampled_from([{"alias": "t"}, {"alias": ":.c:s"}, {"compatibility": "NONE"}]),
    ),
    st.builds(SetMode, PLACES, st.sampled_from(["READWRITE", "READONLY"])),
)
BEGINNING: list[Any] = [
    Register(subject("s"), sent("a"), force=True),
    Register(subject("t"), sent("a"), force=True),
    Register(subject("t"), sent("b", ("s", 1)), force=True),
    Register(subject("s"), sent("c", ("t", 2)), force=True),
    Register(subject(":.c:s"), sent("a"), force=True),
    Register(subject(":.c:t"), sent("b", (":.c:s", 1)), force=True),
    Register(subject(":.d:s"), sent("b"), force=True),
    SetConfig(subject("t"), {"alias": ":.c:s"}),
    SetConfig(subject(":.c:"), {"compatibility": "FULL"}),
    SetMode(subject(":.d:s"), "READONLY"),
]
"""So that subjects share schemas, refer to each other, and are in several contexts."""
PATTERNS = st.sampled_from(["s", "t", "*", ":.c:s", ":.c:*", ":*:s", ":.d:*"])
PRINCIPALS = st.lists(PATTERNS, max_size=3).map(
    lambda patterns: Principal("p", Grants(Grant(Right.READ, each) for each in patterns))
)


@settings(max_examples=30, deadline=None)
@given(st.lists(COMMANDS, max_size=10), PRINCIPALS)
@pytest.mark.slow
def test_answers_are_those_of_a_registry_without_the_rest(
    commands: list[Any], principal: Principal
) -> None:
    whole = Decider()
    for command in BEGINNING + commands:
        try:
            whole.do(command)
        except RegistryError:
            continue
    visible, rest_gone = VisibleCatalog(whole.catalog, principal), without(whole, principal)
    for ask in requests(whole):
        assert outcome(ask, visible) == outcome(ask, rest_gone)
    for name in rest_gone.contexts:
        ids = rest_gone.contexts[name].schemas
        assert visible.highest_id(name) == max(ids, default=0)
    listed = [name for name in lists.contexts(visible) if visible.lists(name)]
    assert listed == lists.contexts(rest_gone)


def without(whole: Decider, principal: Principal) -> Catalog:
    """The catalog of the records of what the principal may read."""
    found = Catalog()

    def apply(record: Record) -> None:
        found.apply(found.number + 1, record)

    used = {
        (record.context, record.schema_id)
        for record in whole.records
        if record.record == "version-added" and is_visible(record, principal)
    }
    for record in whole.records:
        if isinstance(record, SchemaAdded | SchemaRemoved):
            if (record.context, record.schema_id) in used:
                apply(record)
        elif is_visible(record, principal):
            apply(record)
    for name, context in found.contexts.items():
        for schema_id in [each for each, held in context.schemas.items() if not held.used_by]:
            apply(SchemaRemoved(name, schema_id))
    return found


def is_visible(record: Any, principal: Principal) -> bool:
    if isinstance(record, ContextRemoved):
        return True
    return principal.may(Right.READ, Subject(record.context, record.subject))


Ask = Callable[[Catalog], Any]


def of(function: Callable[..., Any], *arguments: Any, **more: Any) -> Ask:
    """A request: call ``function`` with a catalog and the rest."""
    return lambda catalog: function(catalog, *arguments, **more)


def requests(whole: Decider) -> Iterator[Ask]:
    """What can be asked of a catalog."""
    for name in map(subject, [*NAMES, "none", ":.none:s"]):
        yield from requests_about(name, whole)
    for place in map(subject, [*NAMES, "", ":.c:", ":.none:", ":.__GLOBAL:"]):
        for everywhere in (False, True):
            yield of(configuring.config, place, default_to_global=everywhere)
            yield of(modes.mode, place, default_to_global=everywhere)
    for prefix in ("", ":*:", "s", ":.c:", ":.none:"):
        for deleted in (False, True):
            yield of(lists.subjects, prefix, deleted=deleted)
            yield of(lists.all_versions, prefix, deleted=deleted)
        yield of(lists.all_versions, prefix, latest_only=True)
        yield of(lists.all_versions, prefix, aliases=True)
    for text in "abc":
        guid = guid_of(content(text).md5())
        yield of(by_id.ids_of_guid, guid)
        yield of(by_id.by_guid, guid)


def requests_about(name: Subject, whole: Decider) -> Iterator[Ask]:
    for deleted in (False, True):
        yield of(lists.versions, name, deleted=deleted)
        for spec in ("1", "2", "latest"):
            yield of(lists.version, name, spec, deleted=deleted)
            yield of(by_id.referenced_by, name, spec, deleted=deleted)
        for number in range(1, 5):
            yield of(by_id.uses, number, name, deleted=deleted)
            yield of(by_id.by_id, number, name)
            yield of(by_id.by_id, number, Subject(name.context, ""))
        for text in ("a", "b"):
            for refers in ([], [("s", 1)], [(":.c:s", -1)]):
                yield of(reply, LookUp(name, sent(text, *refers), deleted=deleted), whole)
    commands: list[Any] = [DeleteSubject(name), DeleteConfig(name), DeleteMode(name)]
    for spec in ("1", "latest"):
        commands += [DeleteVersion(name, spec), RestoreVersion(name, spec)]
        commands.append(Check(name, spec, sent("a")))
    for command in commands:
        yield of(reply, command, whole)


def reply(catalog: Catalog, command: Any, whole: Decider) -> Any:
    """The reply to a command that is decided on ``catalog``; texts are read from the whole."""
    while not isinstance(answer := decide(catalog, command, 0), Decision):
        if isinstance(answer, Parse):
            command = replace(command, parsed=whole.parse(answer))
        else:
            command = replace(command, checked=whole.compare(answer, command.parsed))
    return answer.reply


def outcome(ask: Ask, catalog: Catalog) -> Any:
    try:
        return ask(catalog)
    except RegistryError as error:
        return error.status, error.code, error.message


def test_a_list_of_ten_thousand_subjects_does_not_stop_the_loop() -> None:
    """Filtering them by several patterns is work for every list; others wait meanwhile."""
    catalog = Catalog()
    catalog.apply(1, SchemaAdded(".", 1, "0" * 32))
    for number in range(10_000):
        catalog.apply(number + 2, VersionAdded(".", f"team-{number}-value", 1, 1, 0))
    grants = [Grant(Right.READ, f"team-*{number}-value") for number in range(5)]
    visible = VisibleCatalog(catalog, Principal("p", Grants(grants)))
    began = time.process_time()
    assert len(lists.subjects(visible)) == 5_000
    assert time.process_time() - began < 0.25
