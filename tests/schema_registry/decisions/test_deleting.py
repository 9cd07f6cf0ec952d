"""Deletion and its end, with the codes that clients know."""

from __future__ import annotations

import pytest
from decider import registered, sent, subject

from tallymark_schema_registry.decisions.commands import (
    DeleteSubject,
    DeleteVersion,
    Register,
    RestoreVersion,
    SetConfig,
    SetMode,
)

S = subject("s")


def test_a_soft_deleted_version_keeps_its_id() -> None:
    decider = registered(S, "a", "b")
    assert decider.do(DeleteVersion(S, "1")) == 1
    found = decider.catalog.subject(S)
    assert found is not None
    assert [entry.version for entry in found.live()] == [2]
    assert decider.catalog.schema(".", 1) is not None


def test_the_latest_version_is_the_latest_that_is_not_deleted() -> None:
    decider = registered(S, "a", "b")
    assert decider.do(DeleteVersion(S, "latest")) == 2
    assert decider.do(DeleteVersion(S, "-1")) == 1
    assert decider.refused(DeleteVersion(S, "latest"))[1] == 40402


def test_what_is_not_there_cannot_be_deleted() -> None:
    decider = registered(S, "a")
    nobody = subject("nobody")
    missing = (404, 40401, "Subject 'nobody' not found.")
    assert decider.refused(DeleteVersion(nobody, "1")) == missing
    assert decider.refused(DeleteSubject(nobody)) == missing
    assert decider.refused(DeleteSubject(nobody, permanent=True)) == missing
    assert decider.refused(DeleteVersion(S, "2")) == (404, 40402, "Version 2 not found.")
    assert decider.refused(DeleteVersion(S, "0"))[1] == 42202
    assert decider.refused(DeleteVersion(S, "x"))[1] == 42202


def test_soft_deletion_twice() -> None:
    decider = registered(S, "a", "b")
    decider.do(DeleteVersion(S, "1"))
    text = "Subject 's' Version 1 was soft deleted.Set permanent=true to delete permanently"
    assert decider.refused(DeleteVersion(S, "1")) == (404, 40406, text)
    assert decider.do(DeleteSubject(S)) == [2]
    text = "Subject 's' was soft deleted.Set permanent=true to delete permanently"
    assert decider.refused(DeleteSubject(S)) == (404, 40404, text)


def test_permanent_deletion_needs_a_soft_one() -> None:
    decider = registered(S, "a", "b")
    text = "Subject 's' Version 1 was not deleted first before being permanently deleted"
    assert decider.refused(DeleteVersion(S, "1", permanent=True)) == (404, 40407, text)
    text = "Subject 's' was not deleted first before being permanently deleted"
    assert decider.refused(DeleteSubject(S, permanent=True)) == (404, 40405, text)
    decider.do(DeleteVersion(S, "1"))
    assert decider.refused(DeleteSubject(S, permanent=True)) == (404, 40405, text)


def test_an_id_goes_with_its_last_version() -> None:
    decider = registered(S, "a")
    decider.do(Register(subject("t"), sent("a")))
    for name in "st":
        decider.do(DeleteVersion(subject(name), "1"))
    assert decider.do(DeleteVersion(S, "1", permanent=True)) == 1
    assert decider.catalog.schema(".", 1) is not None
    decider.do(DeleteSubject(subject("t"), permanent=True))
    assert decider.catalog.schema(".", 1) is None
    assert decider.catalog.ids_of(".", "") == ()
    assert decider.do(Register(S, sent("b"))).version.schema_id == 2


def test_level_and_mode_of_a_subject_go_with_its_last_version() -> None:
    decider = registered(S, "a", "b")
    decider.do(SetConfig(S, {"compatibility": "FULL"}))
    decider.do(SetMode(S, "READWRITE"))
    decider.do(DeleteSubject(S))
    decider.do(DeleteVersion(S, "1", permanent=True))
    assert decider.catalog.contexts["."].configs == {"s": {"compatibilityLevel": "FULL"}}
    decider.do(DeleteVersion(S, "2", permanent=True))
    assert decider.catalog.contexts["."].configs == {}
    assert decider.catalog.contexts["."].modes == {}


def test_a_version_is_restored() -> None:
    decider = registered(S, "a", "b")
    decider.do(DeleteSubject(S))
    assert decider.do(RestoreVersion(S, "1")) == 1
    assert decider.do(RestoreVersion(S, "1")) == 1
    found = decider.catalog.subject(S)
    assert found is not None
    assert [entry.version for entry in found.live()] == [1]
    assert decider.refused(RestoreVersion(S, "3"))[1] == 40402
    assert decider.refused(RestoreVersion(subject("t"), "3"))[1] == 40401


@pytest.mark.parametrize("mode", ["READONLY", "READONLY_OVERRIDE"])
def test_read_only_stops_all_of_it(mode: str) -> None:
    decider = registered(S, "a", "b")
    decider.do(DeleteVersion(S, "1"))
    decider.do(SetMode(subject(""), mode))
    for command in (
        DeleteVersion(S, "2"),
        DeleteVersion(S, "1", permanent=True),
        DeleteSubject(S),
        RestoreVersion(S, "1"),
    ):
        status, code, text = decider.refused(command)
        assert (status, code) == (422, 42205)
        assert text == "Subject s in context . is in read-only mode"


def test_an_alias_is_followed() -> None:
    decider = registered(S, "a")
    decider.do(SetConfig(subject("t"), {"alias": "s"}))
    assert decider.do(DeleteVersion(subject("t"), "1")) == 1
    assert decider.do(RestoreVersion(subject("t"), "1")) == 1
    assert decider.do(DeleteSubject(subject("t"))) == [1]
