"""References: resolved, numbered, kept."""

from __future__ import annotations

from typing import Any

import pytest
from decider import Decider, content, sent, subject

from tallymark_schema_registry.catalog.content import Reference
from tallymark_schema_registry.catalog.records import SchemaAdded, VersionAdded
from tallymark_schema_registry.decisions import references
from tallymark_schema_registry.decisions.commands import (
    DeleteSubject,
    DeleteVersion,
    Import,
    LookUp,
    Parse,
    Register,
    RestoreVersion,
    Sent,
    SetMode,
)
from tallymark_schema_registry.errors import RegistryError


def _register(decider: Decider, name: str, text: str, *to: tuple[str, int]) -> tuple[int, int]:
    found = decider.do(Register(subject(name), sent(text, *to)))
    return found.version.version, found.version.schema_id


def _refused(decider: Decider, command: Any) -> RegistryError:
    before = decider.catalog.number
    with pytest.raises(RegistryError) as refused:
        decider.do(command)
    assert decider.catalog.number == before
    return refused.value


def test_the_latest_becomes_a_number() -> None:
    decider = Decider()
    _register(decider, "t", "a")
    assert _register(decider, "s", "m", ("t", -1)) == (1, 2)
    _register(decider, "t", "b")
    stored = decider.catalog.contexts["."].schemas[2].references
    assert stored == (Reference("N.t", "t", 1),)
    assert _register(decider, "s", "m", ("t", 1)) == (1, 2)
    assert _register(decider, "s", "m", ("t", -1)) == (2, 4), "the latest is another one now"


def test_the_number_and_the_name_are_part_of_the_identity() -> None:
    decider = Decider()
    _register(decider, "t", "a")
    _register(decider, "t", "b")
    assert _register(decider, "s", "m", ("t", 1)) == (1, 3)
    assert _register(decider, "s", "m", ("t", 2)) == (2, 4)
    assert _register(decider, "s", "m") == (3, 5)


@pytest.mark.parametrize(
    ("name", "version"), [("t", 2), ("t", 0), ("t", -2), ("u", 1), ("u", -1), ("t", 10**30)]
)
def test_a_reference_to_nothing_is_refused(name: str, version: int) -> None:
    decider = Decider()
    _register(decider, "t", "a")
    error = _refused(decider, Register(subject("s"), sent("m", (name, version))))
    assert error.code == 42201
    assert f'no schema reference found for subject "{name}"' in error.message


def test_a_reference_to_a_name_that_is_none_is_refused() -> None:
    decider = Decider()
    assert _refused(decider, Register(subject("s"), sent("m", ("a\nb", 1)))).code == 42208
    bad_name = Sent("m", references=(Reference("\ud800", "t", 1),))
    assert _refused(decider, Register(subject("s"), bad_name)).code == 42201


def test_types_come_before_their_use() -> None:
    decider = Decider()
    _register(decider, "t", "a")
    _register(decider, "u", "b", ("t", 1))
    _register(decider, "v", "c", ("t", 1))
    decider.asked.clear()
    _register(decider, "s", "m", ("u", 1), ("v", 1), ("t", 1))
    asked = decider.asked[0]
    assert isinstance(asked, Parse)
    assert asked.closure == ((".", 1), (".", 2), (".", 3))


def test_a_subject_without_a_context_is_in_the_schemas_own() -> None:
    decider = Decider()
    _register(decider, ":.c:t", "a")
    assert _refused(decider, Register(subject("s"), sent("m", ("t", 1)))).code == 42201
    _register(decider, ":.c:s", "m", ("t", 1))
    _register(decider, "s", "m", (":.c:t", 1))
    asked = decider.asked[-1]
    assert isinstance(asked, Parse)
    assert asked.closure == ((".c", 1),)


def test_a_chain_may_be_longer_than_the_stack_but_not_endless() -> None:
    decider = Decider()
    for number in range(1, references.MAX_CLOSURE + 2):
        before = (Reference("N", "t", number - 1),) if number > 1 else ()
        decider.catalog.apply(2 * number - 1, SchemaAdded(".", number, str(number), "AVRO", before))
        decider.catalog.apply(2 * number, VersionAdded(".", "t", number, number, 0))
        decider.texts[".", number] = "a"
    _register(decider, "s", "m", ("t", references.MAX_CLOSURE))
    longer = Register(subject("s"), sent("m", ("t", references.MAX_CLOSURE + 1)))
    error = _refused(decider, longer)
    assert (error.code, "more than" in error.message) == (42201, True)


def test_a_circle_that_came_from_elsewhere_ends() -> None:
    """No request can make one, but a store may be mended by hand."""
    decider = Decider()
    for number, other in ((1, 2), (2, 1)):
        there = (Reference("N", "t", other),)
        decider.catalog.apply(2 * number - 1, SchemaAdded(".", number, str(number), "AVRO", there))
        decider.catalog.apply(2 * number, VersionAdded(".", "t", number, number, 0))
    error = _refused(decider, Register(subject("s"), sent("m", ("t", 1))))
    assert (error.code, "circle" in error.message) == (42201, True)


def test_many_ways_to_one_schema_are_one() -> None:
    """Each schema refers twice to the one before: followed one by one, it would be 2^60 ways."""
    decider = Decider()
    decider.do(Import(subject("t"), 1, 1, content("a")))
    for number in range(2, 60):
        before = ("t", number - 1)
        decider.do(Import(subject("t"), number, number, content("a", before, before)))
    decider.asked.clear()
    with pytest.raises(RegistryError):
        decider.do(LookUp(subject("s"), sent("!", ("t", 59))))
    asked = decider.asked[0]
    assert isinstance(asked, Parse)
    assert len(asked.closure) == 59


# --- deletion


def test_what_is_referred_to_cannot_be_deleted() -> None:
    decider = Decider()
    _register(decider, "t", "a")
    _register(decider, "s", "m", ("t", 1))
    for command in (DeleteVersion(subject("t"), "1"), DeleteSubject(subject("t"))):
        error = _refused(decider, command)
        assert (error.status, error.code) == (422, 42206)
        assert error.message == (
            "One or more references exist to the schema "
            "{magic=1,keytype=SCHEMA,subject=t,version=1}."
        )


def test_a_referrer_in_another_context_counts() -> None:
    decider = Decider()
    _register(decider, ":.c:t", "a")
    _register(decider, "s", "m", (":.c:t", 1))
    error = _refused(decider, DeleteVersion(subject(":.c:t"), "1"))
    assert "subject=:.c:t,version=1" in error.message


def test_a_soft_deleted_referrer_counts_for_permanent_deletion_alone() -> None:
    """Its id can still be read, and it can be restored: both need what it refers to."""
    decider = Decider()
    _register(decider, "t", "a")
    _register(decider, "s", "m", ("t", 1))
    decider.do(DeleteSubject(subject("s")))
    decider.do(DeleteSubject(subject("t")))
    assert _refused(decider, DeleteVersion(subject("t"), "1", permanent=True)).code == 42206
    assert _refused(decider, DeleteSubject(subject("t"), permanent=True)).code == 42206
    decider.do(RestoreVersion(subject("s"), "1"))
    assert decider.do(LookUp(subject("s"), sent("m", ("t", 1)))).version.version == 1
    decider.do(DeleteSubject(subject("s")))
    decider.do(DeleteSubject(subject("s"), permanent=True))
    decider.do(DeleteSubject(subject("t"), permanent=True))
    assert decider.catalog.contexts["."].referred == {}


def test_a_subject_that_refers_to_itself_can_be_deleted() -> None:
    decider = Decider()
    _register(decider, "s", "a")
    _register(decider, "s", "m", ("s", 1))
    assert _refused(decider, DeleteVersion(subject("s"), "1")).code == 42206
    assert decider.do(DeleteSubject(subject("s"))) == [1, 2]
    assert decider.do(DeleteSubject(subject("s"), permanent=True)) == [1, 2]
    assert decider.catalog.contexts["."].schemas == {}


def test_a_schema_that_another_subject_has_too_is_still_a_referrer() -> None:
    decider = Decider()
    _register(decider, "t", "a")
    _register(decider, "s", "m", ("t", 1))
    _register(decider, "t", "m", ("t", 1))
    assert _refused(decider, DeleteSubject(subject("t"))).code == 42206


def test_a_new_schema_cannot_refer_to_what_is_deleted_but_a_known_one_may() -> None:
    decider = Decider()
    _register(decider, "t", "a")
    _register(decider, "s", "m", ("t", 1))
    decider.do(DeleteSubject(subject("s")))
    decider.do(DeleteSubject(subject("t")))
    decider.do(RestoreVersion(subject("s"), "1"))
    assert _register(decider, "s", "m", ("t", 1)) == (1, 2)
    assert _refused(decider, Register(subject("s"), sent("n", ("t", 1)))).code == 42201
    assert _refused(decider, Register(subject("s"), sent("n", ("t", -1)))).code == 42201


# --- written out


def test_a_schema_with_its_types_written_out_is_the_one_with_references() -> None:
    decider = Decider()
    _register(decider, "t", "a")
    _register(decider, "u", "b", ("t", 1))
    _register(decider, "s", "m", ("u", 1))
    assert _register(decider, "s", "m(b(a))") == (1, 3)
    assert decider.do(LookUp(subject("s"), sent("m(b(a))"))).version.version == 1
    assert _register(decider, "s", "m(b)") == (2, 4)


def test_it_is_so_in_read_only_mode_too() -> None:
    decider = Decider()
    _register(decider, "t", "a")
    _register(decider, "s", "m", ("t", 1))
    decider.do(SetMode(subject("s"), "READONLY"))
    assert _register(decider, "s", "m(a)") == (1, 2)
    assert _refused(decider, Register(subject("s"), sent("m(b)"))).code == 42205
