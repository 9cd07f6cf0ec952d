"""Records of ``_schemas`` as different registries and versions write them."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.errors import UserError
from tallymark_schema_registry.catalog.content import Content, Reference
from tallymark_schema_registry.transfer.lines import (
    Entry,
    Key,
    UnreadableError,
    line_of,
    read_entry,
    read_line,
)
from tallymark_schema_registry.transfer.schema_file import read_file, write_snapshot
from tallymark_schema_registry.transfer.snapshot import Replay, Snapshot, Version

V1 = {"keytype": "SCHEMA", "subject": "s", "version": 1, "magic": 1}


def value(schema_id: int = 1, text: str = '"int"', **more: Any) -> dict[str, Any]:
    return {"subject": "s", "version": 1, "id": schema_id, "schema": text, "deleted": False} | more


def key(kind: str, subject: str | None = "s", **more: Any) -> dict[str, Any]:
    return {"keytype": kind, "subject": subject, "magic": 0} | more


def replay(*records: tuple[Any, Any]) -> Replay:
    made = Replay()
    for one in records:
        made.add(read_entry(*one))
    return made


def live(found: Snapshot) -> dict[int, bool]:
    """Number -> whether it is live, of the subject s."""
    return {version: not one.deleted for (_, version), one in sorted(found.versions.items())}


def test_a_key_has_the_bytes_that_registries_write() -> None:
    """Topics are compacted by the bytes of keys: another order of properties is another key there,
    and what was deleted comes back."""
    assert [line_of(Entry(one, None)) for one in (Key("SCHEMA", "s", 1), Key("CONFIG"))] == [
        '{"key":{"keytype":"SCHEMA","subject":"s","version":1,"magic":1},"value":null}',
        '{"key":{"keytype":"CONFIG","subject":null,"magic":0},"value":null}',
    ]
    assert [json.dumps(one.document(), separators=(",", ":")) for one in (
        Key("MODE", "s"), Key("DELETE_SUBJECT", "s"), Key("CLEAR_SUBJECT", "s"),
        Key("CONTEXT", context=".c"), Key("NOOP"),
    )] == [
        '{"keytype":"MODE","subject":"s","magic":0}',
        '{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}',
        '{"keytype":"CLEAR_SUBJECT","subject":"s","magic":0}',
        '{"keytype":"CONTEXT","tenant":"default","context":".c","magic":0}',
        '{"keytype":"NOOP","magic":0}',
    ]  # fmt: skip


@pytest.mark.parametrize(
    "other",
    [
        {"keytype": "SCHEMA", "subject": "s", "version": 1, "magic": 0},
        {"magic": 1, "version": 1, "subject": "s", "keytype": "SCHEMA"},
        {"subject": "s", "keytype": "SCHEMA", "version": 1},
        V1 | {"seq": 12, "node": 3},
    ],
)
def test_keys_of_old_versions_and_other_programs_are_the_same_key(other: Any) -> None:
    """A version that was deleted for good came back: its tombstone had another order of
    properties than its record, and so it was another key."""
    assert replay((other, value()), (V1, None)).snapshot().versions == {}
    assert replay((V1, value()), (other, value(2, '"long"'))).snapshot().versions == {
        ("s", 1): Version("s", 1, 2, Content('"long"'))
    }


def test_a_value_of_each_kind() -> None:
    references = [{"name": "a.B", "subject": ":.c:b", "version": 3}]
    found = replay(
        (V1, value(schemaType="JSON", references=references, md5="AA==", metadata=None)),
        (key("CONFIG", None), {"compatibilityLevel": "FULL", "alias": None, "subject": None}),
        (key("CONFIG"), {"compatibilityLevel": "NONE", "normalize": True}),
        (key("MODE"), {"subject": "s", "mode": "READONLY"}),
        ({"keytype": "NOOP", "magic": 0}, None),
        ({"keytype": "CONTEXT", "tenant": "default", "context": ".c"}, {"context": ".c"}),
        (key("CONFIG", "gone"), {"compatibilityLevel": "FULL"}),
        (key("CONFIG", "gone"), None),
    ).snapshot()
    content = Content('"int"', "JSON", (Reference("a.B", ":.c:b", 3),))
    assert found.versions == {("s", 1): Version("s", 1, 1, content)}
    assert found.configs == {
        "": {"compatibilityLevel": "FULL"},
        "s": {"compatibilityLevel": "NONE", "normalize": True},
    }
    assert found.modes == {"s": "READONLY"}


def test_what_the_oldest_registries_wrote() -> None:
    """Neither ``deleted`` nor ``magic`` 1 was there."""
    old = {"subject": "s", "version": 1, "id": 7, "schema": '"int"'}
    found = replay(({"keytype": "SCHEMA", "subject": "s", "version": 1, "magic": 0}, old))
    assert found.snapshot().versions == {("s", 1): Version("s", 1, 7, Content('"int"'))}


def numbered(version: int) -> dict[str, Any]:
    return V1 | {"version": version}


def test_delete_subject_is_soft_and_holds_up_to_its_version() -> None:
    records = [(numbered(1), value(1)), (numbered(2), value(2, '"long"'))]
    ended = (key("DELETE_SUBJECT"), {"subject": "s", "version": 2})
    again = (numbered(3), value(1))
    assert live(replay(*records, ended).snapshot()) == {1: False, 2: False}
    assert live(replay(*records, ended, again).snapshot()) == {1: False, 2: False, 3: True}
    restored = (numbered(2), value(2, '"long"'))
    assert live(replay(*records, ended, restored).snapshot()) == {1: False, 2: True}
    assert live(replay(*records, ended, (key("DELETE_SUBJECT"), None)).snapshot()) == {
        1: True,
        2: True,
    }


def test_clear_subject_removes_what_was_softly_deleted() -> None:
    records = [(numbered(1), value(1, deleted=True)), (numbered(2), value(2, '"long"'))]
    cleared = (key("CLEAR_SUBJECT"), {"subject": "s"})
    assert live(replay(*records, cleared).snapshot()) == {2: True}
    assert live(replay(cleared, *records).snapshot()) == {1: False, 2: True}
    ended = (key("DELETE_SUBJECT"), {"subject": "s", "version": 2})
    assert live(replay(*records, ended, cleared).snapshot()) == {}


def test_unknown_kinds_are_counted_and_stop_nothing() -> None:
    found = replay(
        ({"keytype": "ASSOC", "tenant": "default", "guid": "x", "magic": 0}, {"a": 1}),
        ({"keytype": "ASSOC", "tenant": "default", "guid": "y", "magic": 0}, [1]),
        (V1, value()),
    )
    assert dict(found.unknown) == {"ASSOC": 2}
    assert list(found.snapshot().versions) == [("s", 1)]


@pytest.mark.parametrize(
    "wrong",
    [value(-1), value() | {"id": "1"}, value() | {"id": True}, value() | {"schema": None},
     value(references=[{"name": "x"}]),
     value(references=[{"name": "x", "subject": ":y", "version": 1}])],
)  # fmt: skip
def test_a_version_without_what_it_needs_is_reported(wrong: Any) -> None:
    found = replay((V1, wrong), (numbered(2), value(2, '"long"')))
    assert list(found.snapshot().versions) == [("s", 2)]
    (told,) = found.lost
    assert told.startswith("SCHEMA s 1: ")


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ([], "no keytype"),
        ({"keytype": 1}, "no keytype"),
        ({"keytype": "SCHEMA", "subject": "s"}, "needs a subject and a version"),
        ({"keytype": "SCHEMA", "subject": "s", "version": True}, "needs a subject and a version"),
        ({"keytype": "MODE", "subject": 7}, "no text"),
    ],
)
def test_what_is_no_key(wrong: Any, why: str) -> None:
    with pytest.raises(UnreadableError, match=why):
        read_entry(wrong, None)


def test_lines_of_the_console_consumer() -> None:
    """``kafka-console-consumer --property print.key=true``, the backup that many have."""
    assert read_line(f"{json.dumps(V1, separators=(',', ':'))}\tnull") == Entry(
        Key("SCHEMA", "s", 1), None
    )


RECORDS = st.one_of(
    st.tuples(
        st.builds(lambda version: V1 | {"version": version}, st.integers(1, 3)),
        st.none() | st.builds(
            lambda n, gone: value(n, f'"{n}"', deleted=gone), st.integers(1, 3), st.booleans()
        ),
    ),
    st.tuples(
        st.just(key("DELETE_SUBJECT")),
        st.none() | st.builds(lambda n: {"subject": "s", "version": n}, st.integers(1, 3)),
    ),
    st.tuples(st.just(key("CLEAR_SUBJECT")), st.none() | st.just({"subject": "s"})),
    st.tuples(st.just(key("CONFIG")), st.none() | st.just({"compatibilityLevel": "FULL"})),
)  # fmt: skip


@given(st.lists(RECORDS, max_size=12))
def test_a_compacted_log_amounts_to_the_same(log: list[tuple[Any, Any]]) -> None:
    """Compaction leaves the last record of each key where it was, and at last no tombstone."""
    names = [json.dumps(one, sort_keys=True) for one, _ in log]
    last = {name: at for at, name in enumerate(names)}
    compacted = [one for at, one in enumerate(log) if last[names[at]] == at and one[1] is not None]
    assert replay(*compacted).snapshot() == replay(*log).snapshot()


@given(st.text(), st.text())
def test_any_text_comes_back(text: str, doc: str) -> None:
    """U+2028 ends no line, and half of a surrogate pair can be written."""
    entry = Entry(Key("SCHEMA", text or "s", 1), value(1, doc))
    line = line_of(entry)
    assert "\n" not in line
    assert read_line(line.encode().decode()) == entry
    half = entry._replace(value=value(1, "\ud800"))
    assert read_line(line_of(half).encode().decode()) == half


def exported() -> bytes:
    out = io.BytesIO()
    made = replay((V1, value()), (numbered(2), value(2, '"long"')))
    write_snapshot(made.snapshot(), out)
    return out.getvalue()


def test_a_damaged_file_is_an_error() -> None:
    whole = exported()
    assert read_file(io.BytesIO(whole), "x").proven
    lines = whole.splitlines(keepends=True)
    for damaged, why in (
        (whole.replace(b"long", b"lung"), "SHA-256"),
        (b"".join(lines[1:]), "it has 1 records, its last line says 2"),
        (whole[:-20], "line 3: it is not JSON"),
        (whole + lines[0], "line 4 comes after the last one"),
        (b"\xff\n" + whole, "line 1"),
        (b'{"key": {}}\n', "it is not"),
    ):
        with pytest.raises(UserError, match=why):
            read_file(io.BytesIO(damaged), "x")
    assert not read_file(io.BytesIO(b"".join(lines[:-1])), "x").proven
