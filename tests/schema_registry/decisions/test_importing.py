"""Ids and versions from elsewhere: IMPORT and FORWARD mode, and the import of a registry."""

from __future__ import annotations

from typing import Any

import pytest
from decider import PLACE, Decider, content, sent, subject

from tallymark_schema_registry.catalog.content import Content
from tallymark_schema_registry.catalog.contracts import metadata_text
from tallymark_schema_registry.decisions.commands import (
    DeleteSubject,
    DeleteVersion,
    Import,
    Register,
    Sent,
    SetConfig,
    SetMode,
)


def _importing(mode: str = "IMPORT") -> Decider:
    decider = Decider()
    decider.do(SetMode(PLACE, mode))
    return decider


def _register(decider: Decider, name: str, text: str, **numbers: Any) -> tuple[int, int]:
    found = decider.do(Register(subject(name), sent(text, **numbers)))
    return found.version.version, found.version.schema_id


@pytest.mark.parametrize("mode", ["IMPORT", "FORWARD"])
def test_the_client_chooses_id_and_version(mode: str) -> None:
    decider = _importing(mode)
    assert _register(decider, "s", "a", schema_id=70, version=3) == (3, 70)
    assert _register(decider, "s", "b", schema_id=50, version=1) == (1, 50)
    assert _register(decider, "s", "c", schema_id=60) == (4, 60)
    there = decider.catalog.subject(subject("s"))
    assert there is not None
    assert list(there.versions) == [1, 3, 4]
    decider.do(SetMode(PLACE, "READWRITE"))
    assert _register(decider, "s", "d") == (5, 71)


@pytest.mark.parametrize(
    ("mode", "schema_id"), [("IMPORT", None), ("FORWARD", None), ("READWRITE", 7), ("READONLY", 7)]
)
def test_an_id_is_given_in_import_mode_and_in_no_other(mode: str, schema_id: int | None) -> None:
    decider = _importing(mode)
    command = Register(subject("s"), sent("a", schema_id=schema_id))
    assert decider.refused(command).code == 42205


def test_the_mode_is_the_first_reason_to_refuse_an_id() -> None:
    decider = Decider()
    _register(decider, "s", "a")
    assert decider.refused(Register(subject("s"), sent("a", schema_id=8))).code == 42205
    assert _register(decider, "s", "a", schema_id=1) == (1, 1)


def test_the_same_again_is_answered_and_anything_else_refused() -> None:
    decider = _importing()
    _register(decider, "s", "a", schema_id=7, version=1)
    number = decider.catalog.number
    assert _register(decider, "s", "a", schema_id=7, version=1) == (1, 7)
    assert _register(decider, "s", " a", schema_id=7) == (1, 7)
    assert decider.catalog.number == number
    other_text = Register(subject("s"), sent("b", schema_id=7, version=2))
    other_both = Register(subject("s"), sent("b", schema_id=8, version=1))
    assert decider.refused(other_text).code == 42205
    assert decider.refused(other_both).code == 42205
    for version in (1, None):
        other_id = Register(subject("s"), sent("a", schema_id=8, version=version))
        assert decider.refused(other_id).code == 42207
    assert decider.refused(Register(subject("t"), sent("b", schema_id=7))).code == 42205


def test_one_content_under_two_ids() -> None:
    """Another registry gave a content a second id. Both must be read, and a registration gets one
    of them, not a third."""
    decider = _importing()
    assert _register(decider, "s", "a", schema_id=7, version=1) == (1, 7)
    assert _register(decider, "s", "a", schema_id=9, version=2) == (2, 9)
    assert _register(decider, "t", "a", schema_id=9, version=1) == (1, 9)
    decider.do(SetMode(PLACE, "READWRITE"))
    assert _register(decider, "u", "a") == (1, 7)
    assert _register(decider, "s", "a") == (2, 9), "the newest version that has it"
    for name in "su":
        decider.do(DeleteSubject(subject(name)))
        decider.do(DeleteSubject(subject(name), permanent=True))
    assert decider.catalog.schema(".", 7) is None
    assert _register(decider, "v", "a") == (1, 9)


def test_imported_schemas_are_not_compared_merged_or_normalized() -> None:
    decider = _importing()
    decider.do(SetConfig(PLACE, {"overrideMetadata": {"properties": {"a": "b"}}}))
    _register(decider, "s", "a", schema_id=1)
    assert _register(decider, "s", "x", schema_id=2) == (2, 2)
    found = decider.do(Register(subject("s"), sent("~B", schema_id=3), normalize=True))
    assert found.schema.metadata == ""
    assert decider.texts[".", 3] == "~B"


def test_an_empty_text_is_no_import() -> None:
    decider = _importing()
    assert decider.refused(Register(subject("s"), sent("", schema_id=7))).code == 42201
    decider.do(Import(subject("s"), 1, 1, Content("syntax", kind="PROTOBUF")))
    decider.do(SetMode(PLACE, "READWRITE"))
    assert decider.refused(Register(subject("s"), sent("", metadata="{}"))).code == 42201


def test_an_import_ends_a_soft_deletion() -> None:
    decider = _importing()
    _register(decider, "s", "a", schema_id=7, version=1)
    decider.do(DeleteVersion(subject("s"), "1"))
    assert _register(decider, "s", "a", schema_id=7, version=1) == (1, 7)
    there = decider.catalog.version(subject("s"), 1)
    assert there is not None
    assert not there.deleted


@pytest.mark.parametrize("schema_id", [-2, 2**31])
def test_a_number_that_is_no_id_is_refused(schema_id: int) -> None:
    assert (
        _importing().refused(Register(subject("s"), sent("a", schema_id=schema_id))).code == 42201
    )


# --- whole registries


def test_an_import_needs_no_mode_and_can_be_repeated() -> None:
    decider = Decider()
    decider.do(SetMode(PLACE, "READONLY"))
    command = Import(subject("s"), 4, 9, content("a"), deleted=True, at_ms=77, by="ann")
    for _ in range(2):
        found = decider.do(command)
        assert (found.version.version, found.version.schema_id) == (4, 9)
        assert (found.version.at_ms, found.version.by, found.version.deleted) == (77, "ann", True)
    assert decider.catalog.number == 3
    decider.do(Import(subject("s"), 4, 9, content("a")))
    there = decider.catalog.version(subject("s"), 4)
    assert there is not None
    assert not there.deleted
    assert there.at_ms == 77


def test_an_import_does_not_follow_aliases() -> None:
    decider = Decider()
    decider.do(SetConfig(subject("s"), {"alias": "t"}))
    assert decider.do(Import(subject("s"), 1, 1, content("a"))).subject == subject("s")


@pytest.mark.parametrize(
    ("version", "schema_id", "code"),
    [(0, 1, 42202), (-1, 1, 42202), (2**31, 1, 42202), (1, -1, 42201), (1, 2**31, 42201)],
)
def test_numbers_of_an_import_are_checked(version: int, schema_id: int, code: int) -> None:
    decider = Decider()
    assert decider.refused(Import(subject("s"), version, schema_id, content("a"))).code == code


def test_an_import_is_refused_where_something_else_is() -> None:
    decider = Decider()
    decider.do(Import(subject("s"), 1, 1, content("a")))
    assert decider.refused(Import(subject("s"), 1, 2, content("b"))).code == 42205
    assert decider.refused(Import(subject("t"), 1, 1, content("b"))).code == 42205
    other_metadata = Content("a", metadata=metadata_text({"sensitive": ["p"]}))
    assert decider.refused(Import(subject("t"), 1, 1, other_metadata)).code == 42205
    assert decider.refused(Import(subject(":.__GLOBAL:"), 1, 1, content("a"))).code == 42208


def test_metadata_of_another_server_is_brought_into_our_form() -> None:
    """A server's rules may have names that we refuse, and a server of another make attributes and
    orders of its own. What it accepted is taken; what has wrong types could not be hashed, and was
    a 500."""
    decider = Decider()
    odd = Content(
        "a",
        metadata='{"sensitive":["b","a"],"note":1}',
        rule_set='{"domainRules":[{"name":"1 x","mode":"UPGRADE"}]}',
    )
    found = decider.do(Import(subject("s"), 1, 1, odd))
    assert found.schema.metadata == metadata_text({"sensitive": ["a", "b"]})
    assert decider.do(Import(subject("s"), 1, 1, odd)).version == found.version
    assert decider.catalog.number == 2
    decider.do(SetConfig(subject("s"), {"defaultRuleSet": {"domainRules": []}}))
    decider.do(Register(subject("s"), sent("b")))
    for wrong in ('{"tags":["a"]}', '{"properties":{"a":{}}}', "[1]"):
        command = Import(subject("s"), 2, 2, Content("b", metadata=wrong))
        assert decider.refused(command).code == 400
    assert decider.refused(Import(subject("s"), 2, 2, Content("b", rule_set="3"))).code == 400
    assert decider.refused(Import(subject("s"), 2, 2, Content("\ud800"))).code == 42201


def test_an_import_of_a_reference_to_nothing_is_refused() -> None:
    decider = Decider()
    command = Import(subject("s"), 1, 2, content("b", ("t", 1)))
    assert decider.refused(command).code == 42201
    decider.do(Import(subject("u"), 1, 2, content("b")))
    for number in (0, -1, 2**31, 10**30):
        assert (
            decider.refused(Import(subject("s"), 1, 2, content("b", ("u", number)))).code == 42201
        )
    decider = Decider()
    itself = Import(subject("t"), 1, 2, content("b", ("t", 1)))
    assert decider.refused(itself).code == 42201
    decider.do(Import(subject("t"), 1, 1, content("a"), deleted=True))
    decider.do(command)


def test_a_schema_of_another_type_is_imported_as_it_is() -> None:
    """An export with a JSON schema could be imported by no client: registering refused the type,
    also in the mode that is there for imports."""
    decider = _importing()
    json_schema = Sent('{ "type": "object" }', kind="JSON", schema_id=7, version=3)
    for _ in range(2):
        found = decider.do(Register(subject("s"), json_schema))
        assert (found.version.version, found.schema.schema_id, found.schema.kind) == (3, 7, "JSON")
    other = Sent("syntax", kind="JSON", schema_id=7, version=3)
    assert decider.refused(Register(subject("s"), other)).code == 42205
    for wrong in (Sent("", kind="JSON", schema_id=8), Sent("x", kind="THRIFT", schema_id=8)):
        assert decider.refused(Register(subject("s"), wrong)).code == 42201
    unnumbered = Sent("x", kind="PROTOBUF")
    assert decider.refused(Register(subject("s"), unnumbered)).code == 42205
    decider.do(SetMode(PLACE, "READWRITE"))
    assert decider.refused(Register(subject("s"), sent("a"))).code == 409
    assert decider.refused(Register(subject("s"), Sent("x", kind="JSON"))).code == 42201
