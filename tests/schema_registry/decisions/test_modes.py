"""Modes: where they are set, for whom they hold, what they need."""

from __future__ import annotations

from typing import Any

import pytest
from decider import PLACE, Decider, content, sent, subject

from tallymark_schema_registry.catalog.subject import GLOBAL
from tallymark_schema_registry.decisions.commands import (
    DeleteContext,
    DeleteMode,
    DeleteSubject,
    Import,
    Register,
    SetConfig,
    SetMode,
)
from tallymark_schema_registry.decisions.lists import contexts
from tallymark_schema_registry.decisions.modes import mode
from tallymark_schema_registry.errors import RegistryError

S, C, IN_C = subject("s"), subject(":.c:"), subject(":.c:s")


def _mode(decider: Decider, place: Any) -> str:
    return str(mode(decider.catalog, place, default_to_global=True))


def test_the_nearest_mode_is_in_force() -> None:
    decider = Decider()
    assert _mode(decider, S) == "READWRITE"
    decider.do(SetMode(GLOBAL, "READONLY"))
    assert [_mode(decider, place) for place in (S, IN_C)] == ["READONLY", "READONLY"]
    decider.do(SetMode(C, "FORWARD"))
    assert [_mode(decider, place) for place in (S, IN_C)] == ["READONLY", "FORWARD"]
    decider.do(SetMode(IN_C, "READWRITE"))
    assert _mode(decider, IN_C) == "READWRITE"
    decider.do(DeleteMode(IN_C))
    assert _mode(decider, IN_C) == "FORWARD"


def test_the_default_contexts_mode_is_not_for_others() -> None:
    decider = Decider()
    decider.do(SetMode(PLACE, "READONLY"))
    assert [_mode(decider, place) for place in (S, IN_C)] == ["READONLY", "READWRITE"]


@pytest.mark.parametrize("place", [PLACE, GLOBAL])
def test_an_override_is_for_all(place: Any) -> None:
    decider = Decider()
    decider.do(SetMode(S, "READWRITE"))
    decider.do(SetMode(place, "READONLY_OVERRIDE"))
    for stopped in (S, IN_C):
        assert _mode(decider, stopped) == "READONLY_OVERRIDE"
        assert decider.refused(Register(stopped, sent("a"))).code == 42205
    assert str(mode(decider.catalog, S)) == "READONLY_OVERRIDE"


def test_an_override_of_a_context_is_for_it_alone() -> None:
    decider = Decider()
    decider.do(SetMode(IN_C, "READWRITE"))
    decider.do(SetMode(C, "READONLY_OVERRIDE"))
    assert [_mode(decider, place) for place in (S, IN_C)] == ["READWRITE", "READONLY_OVERRIDE"]


def test_what_is_set_is_answered() -> None:
    decider = Decider()
    assert str(mode(decider.catalog, PLACE)) == "READWRITE"
    for place, shown in ((S, "s"), (C, ":.c:"), (GLOBAL, ":.__GLOBAL:")):
        with pytest.raises(RegistryError) as refused:
            mode(decider.catalog, place)
        text = f"Subject '{shown}' does not have subject-level mode configured"
        assert (refused.value.code, refused.value.message) == (40409, text)
    assert decider.do(SetMode(S, "readonly")) == "READONLY"
    assert str(mode(decider.catalog, S)) == "READONLY"


@pytest.mark.parametrize("name", ["", "x", "NONE", "read write"])
def test_a_mode_that_is_none_is_refused(name: str) -> None:
    text = "Invalid mode. Valid values are READWRITE, READONLY, IMPORT and FORWARD."
    assert Decider().refused(SetMode(S, name))[1:] == (42204, text)


def test_forward_is_not_for_one_subject() -> None:
    assert Decider().refused(SetMode(S, "FORWARD")).code == 42205


def test_the_same_mode_again_changes_nothing() -> None:
    decider = Decider()
    for _ in range(2):
        decider.do(SetMode(S, "READONLY"))
    assert decider.catalog.number == 1


def test_read_only_can_be_ended() -> None:
    decider = Decider()
    decider.do(SetMode(PLACE, "READONLY_OVERRIDE"))
    decider.do(SetMode(PLACE, "READWRITE"))
    decider.do(Register(S, sent("a")))


# --- IMPORT


def test_import_mode_needs_a_place_without_versions() -> None:
    decider = Decider()
    decider.do(Register(S, sent("a")))
    decider.do(Register(IN_C, sent("a")))
    text = "Cannot import since found existing subjects"
    for place in (S, PLACE, C, GLOBAL):
        assert decider.refused(SetMode(place, "IMPORT"))[1:] == (42205, text)
    decider.do(SetMode(subject("t"), "IMPORT"))
    decider.do(SetMode(subject(":.d:"), "IMPORT"))
    decider.do(SetMode(PLACE, "IMPORT", force=True))
    assert decider.catalog.version(S, 1) is not None
    decider.do(SetMode(S, "IMPORT"))


def test_import_mode_removes_what_is_soft_deleted() -> None:
    """Otherwise the ids and numbers that come would be taken."""
    decider = Decider()
    decider.do(Register(S, sent("a")))
    decider.do(Register(subject("t"), sent("b", ("s", 1))))
    decider.do(Register(IN_C, sent("a")))
    decider.do(DeleteSubject(subject("t")))
    decider.do(DeleteSubject(S))
    assert decider.refused(SetMode(S, "IMPORT")).code == 42206
    decider.do(SetMode(PLACE, "IMPORT"))
    assert decider.catalog.contexts["."].schemas == {}
    assert decider.catalog.subject(S) is None
    assert decider.catalog.subject(IN_C) is not None
    decider.do(Register(S, sent("c", schema_id=1, version=1)))


# --- the end of a mode


def test_a_mode_that_is_not_set_cannot_be_deleted() -> None:
    decider = Decider()
    assert decider.do(DeleteMode(PLACE)) == "READWRITE"
    assert decider.refused(DeleteMode(S))[1:] == (40401, "Subject 's' not found.")
    assert decider.refused(DeleteMode(C)).code == 40401
    decider.do(SetMode(PLACE, "READONLY"))
    assert decider.do(DeleteMode(PLACE)) == "READONLY"
    assert _mode(decider, S) == "READWRITE"


def test_recursive_is_for_the_subjects_of_the_context_too() -> None:
    decider = Decider()
    for place in (PLACE, S, IN_C, C):
        decider.do(SetMode(place, "READONLY"))
    assert decider.do(DeleteMode(PLACE, recursive=True)) == "READONLY"
    assert decider.catalog.contexts["."].modes == {}
    assert set(decider.catalog.contexts[".c"].modes) == {"", "s"}
    for place in (PLACE, S, subject("t")):
        decider.do(SetMode(place, "READONLY"))
    assert decider.do(DeleteMode(PLACE)) == "READONLY"
    assert set(decider.catalog.contexts["."].modes) == {"s", "t"}
    assert decider.do(DeleteMode(S, recursive=True)) == "READONLY"
    assert set(decider.catalog.contexts["."].modes) == {"t"}


# --- contexts


def test_a_context_that_is_empty_can_be_deleted() -> None:
    decider = Decider()
    decider.do(Register(IN_C, sent("a")))
    decider.do(SetConfig(C, {"compatibility": "NONE"}))
    decider.do(SetMode(subject(":.c:t"), "READONLY"))
    assert contexts(decider.catalog) == [".", ".c"]
    assert decider.refused(DeleteContext(".c")).code == 42211
    decider.do(DeleteSubject(IN_C))
    assert decider.refused(DeleteContext(".c")).code == 42211
    decider.do(DeleteSubject(IN_C, permanent=True))
    decider.do(SetMode(C, "READONLY"))
    assert decider.refused(DeleteContext(".c"))[1:] == (42205, "Context .c is in read-only mode")
    decider.do(DeleteMode(C))
    decider.do(DeleteContext(".c"))
    assert contexts(decider.catalog) == ["."]
    assert decider.catalog.contexts[".c"].configs == {}
    assert decider.catalog.contexts[".c"].modes == {}
    decider.do(DeleteContext(".c"))
    decider.do(DeleteContext(".nobody"))
    assert decider.do(Register(IN_C, sent("b"))).version.schema_id == 2, "ids are not given again"
    assert contexts(decider.catalog) == [".", ".c"]


def test_the_default_context_stays() -> None:
    assert Decider().refused(DeleteContext(".")).code == 42205


def test_an_import_lists_its_context() -> None:
    decider = Decider()
    decider.do(Import(IN_C, 1, 1, content("a"), deleted=True))
    decider.do(SetConfig(subject(":.d:"), {"compatibility": "NONE"}))
    assert contexts(decider.catalog) == [".", ".c"]
