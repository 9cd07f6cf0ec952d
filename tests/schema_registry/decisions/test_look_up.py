"""Look-ups and checks of a schema that a client has."""

from __future__ import annotations

import pytest
from decider import Decider, registered, sent, subject

from tallymark_schema_registry.catalog.content import Content
from tallymark_schema_registry.catalog.contracts import metadata_text
from tallymark_schema_registry.decisions.commands import (
    Check,
    Compare,
    Conflict,
    DeleteVersion,
    Import,
    LookUp,
    Register,
    SetConfig,
    SetMode,
)
from tallymark_schema_registry.decisions.comparing import details
from tallymark_schema_registry.errors import RegistryError

S = subject("s")


def _version(decider: Decider, command: LookUp) -> int:
    return int(decider.do(command).version.version)


def test_the_version_that_has_a_schema() -> None:
    decider = registered(S, "a", "b")
    assert _version(decider, LookUp(S, sent(" a"))) == 1
    number = decider.catalog.number
    assert decider.refused(LookUp(S, sent("c")))[1:] == (40403, "Schema not found")
    assert decider.refused(LookUp(subject("t"), sent("a")))[1:] == (
        40401,
        "Subject 't' not found.",
    )
    assert decider.catalog.number == number


def test_an_empty_schema_is_one_that_is_not_there() -> None:
    """It was called an invalid schema."""
    decider = registered(S, "a")
    for empty in ("", " ", None):
        assert decider.refused(LookUp(S, sent(empty))).code == 40403
        assert decider.refused(LookUp(subject("t"), sent(empty))).code == 40401


def test_what_cannot_be_read_is_invalid_wherever_it_is_looked_for() -> None:
    assert Decider().refused(LookUp(S, sent("!"))).code == 42201
    assert Decider().refused(LookUp(S, sent("a", ("t", 1)))).code == 42201


def test_what_would_be_refused_as_new_can_be_looked_up() -> None:
    decider = Decider()
    decider.do(Import(S, 1, 1, Content("~a")))
    assert _version(decider, LookUp(S, sent("~a"))) == 1


def test_soft_deleted_versions_are_found_if_asked_for() -> None:
    decider = registered(S, "a", "b")
    decider.do(DeleteVersion(S, "1"))
    assert decider.refused(LookUp(S, sent("a"))).code == 40403
    assert _version(decider, LookUp(S, sent("a"), deleted=True)) == 1
    decider.do(DeleteVersion(S, "2"))
    assert decider.refused(LookUp(S, sent("a"))).code == 40401
    assert decider.refused(LookUp(S, sent("c"), deleted=True)).code == 40403


def test_metadata_that_was_inherited_need_not_be_sent() -> None:
    decider = Decider()
    owner = metadata_text({"properties": {"owner": "ann"}})
    decider.do(Register(S, sent("a", metadata=owner)))
    decider.do(Register(S, sent("b")))
    assert _version(decider, LookUp(S, sent("b"))) == 2
    assert decider.refused(LookUp(S, sent("b", metadata="{}"))).code == 40403


def test_a_version_in_the_metadata_must_be_the_versions_number() -> None:
    decider = registered(S, "a", "b")

    def with_number(number: int) -> str:
        return metadata_text({"properties": {"confluent:version": str(number)}})

    assert _version(decider, LookUp(S, sent("a", metadata=with_number(1)))) == 1
    assert decider.refused(LookUp(S, sent("a", metadata=with_number(2)))).code == 40403


def test_types_written_out_that_are_of_no_version() -> None:
    decider = registered(S, "a")
    decider.do(Register(subject("t"), sent("m", ("s", 1))))
    assert _version(decider, LookUp(subject("t"), sent("m(a)"))) == 1
    assert decider.refused(LookUp(subject("t"), sent("m(b)"))).code == 40403


def test_a_long_schema_is_cut_short() -> None:
    decider = registered(S, "a" * 20_000)
    reasons = decider.do(Check(S, None, sent("x")))
    assert reasons[2] == f"{{oldSchema: '{'a' * 10_240}'}}"


def test_an_answer_is_bounded() -> None:
    """A check against all of 500 versions would have been answered with 20 MB."""
    catalog = Decider().catalog
    many = Conflict(1, ("r" * 1_000,) * 100, "old")
    texts = details(catalog, S, [many])
    assert texts[32:] == [
        "{and more}",
        "{oldSchemaVersion: 1}",
        "{oldSchema: 'old'}",
        "{validateFields: 'false', compatibility: 'BACKWARD'}",
    ]
    long = details(catalog, S, [Conflict(1, ("r" * 100_000,), "old")])
    assert len(long[0]) == 32_768
    texts = details(catalog, S, [many] * 500)
    assert sum(map(len, texts)) < 300_000
    assert texts[-2] == "{and more versions}"


def test_another_context_is_looked_into_where_the_default_one_has_no_such_subject() -> None:
    decider = Decider()
    for name in (":.d:s", ":.c:s"):
        decider.do(Register(subject(name), sent("a")))
    assert decider.do(LookUp(S, sent("a"))).subject == subject(":.c:s")
    assert decider.refused(LookUp(S, sent("b")))[1:] == (40403, "Schema not found")
    decider.do(Register(S, sent("b")))
    assert decider.do(LookUp(S, sent("b"))).subject == S
    assert decider.refused(LookUp(S, sent("a"))).code == 40403


def test_an_alias_is_followed() -> None:
    decider = registered(S, "a")
    decider.do(SetConfig(subject("t"), {"alias": "s"}))
    assert decider.do(LookUp(subject("t"), sent("a"))).subject == S


# --- checks


def test_a_schema_that_fits_has_no_reasons() -> None:
    decider = registered(S, "a", "b")
    assert decider.do(Check(S, None, sent("c"))) == []
    assert decider.do(Check(S, "1", sent("c"))) == []
    assert decider.catalog.number == 4


def test_the_reasons_are_those_of_a_registration() -> None:
    decider = registered(S, "a", "b")
    expected = [
        "x is not b",
        "{oldSchemaVersion: 2}",
        "{oldSchema: 'b'}",
        "{validateFields: 'false', compatibility: 'BACKWARD'}",
    ]
    assert decider.do(Check(S, None, sent("x"))) == expected
    assert decider.do(Check(S, "latest", sent("x"))) == expected
    assert decider.do(Check(S, "1", sent("x")))[1] == "{oldSchemaVersion: 1}"


def test_every_version_that_conflicts_is_named() -> None:
    decider = registered(S, "a", "b")
    decider.do(SetConfig(S, {"compatibility": "FULL_TRANSITIVE", "validateFields": True}))
    reasons = decider.do(Check(S, None, sent("x")))
    assert [r for r in reasons if "oldSchemaVersion" in r] == [
        "{oldSchemaVersion: 2}",
        "{oldSchemaVersion: 1}",
    ]
    assert reasons[-1] == "{validateFields: 'true', compatibility: 'FULL_TRANSITIVE'}"


def test_a_subject_that_is_not_there_fits_everything_a_version_does_not() -> None:
    decider = registered(S, "a")
    assert decider.do(Check(subject("t"), None, sent("x"))) == []
    assert decider.do(Check(subject("t"), "latest", sent("x"))) == []
    assert decider.do(Check(subject("t"), "-1", sent("x"))) == []
    assert decider.refused(Check(subject("t"), "1", sent("x")))[1:] == (
        40402,
        "Version 1 not found.",
    )
    assert decider.refused(Check(S, "0", sent("x"))).code == 42202
    decider.do(DeleteVersion(S, "1"))
    assert decider.refused(Check(S, "1", sent("x"))).code == 40402
    assert decider.do(Check(S, "latest", sent("x"))) == []


def test_a_level_of_none_checks_nothing() -> None:
    decider = registered(S, "a")
    decider.do(SetConfig(S, {"compatibility": "NONE"}))
    assert decider.do(Check(S, None, sent("x"))) == []
    assert decider.do(Check(S, "1", sent("x"))) == []


def test_a_transitive_level_asks_for_one_version_where_one_is_named() -> None:
    decider = registered(S, "a", "b")
    decider.do(SetConfig(S, {"compatibility": "BACKWARD_TRANSITIVE"}))
    decider.asked.clear()
    decider.do(Check(S, "1", sent("c")))
    assert [asked.earlier for asked in decider.asked if isinstance(asked, Compare)] == [((1, 1),)]


def test_a_schema_that_could_not_be_registered_is_invalid() -> None:
    decider = registered(S, "a")
    for text in ("!", "~b", "", None):
        assert decider.refused(Check(S, None, sent(text))).code == 42201


def test_groups_hold_for_checks() -> None:
    decider = Decider()
    decider.do(SetConfig(S, {"compatibilityGroup": "major"}))
    one = metadata_text({"properties": {"major": "1"}})
    decider.do(Register(S, sent("a", metadata=one)))
    assert decider.do(Check(S, None, sent("x"))) == []
    assert decider.do(Check(S, "1", sent("x"))) == []
    assert decider.do(Check(S, "1", sent("x", metadata=one))) != []


def test_another_type_of_schema_is_incompatible() -> None:
    decider = Decider()
    decider.do(Import(S, 1, 1, Content("syntax", kind="JSON")))
    expected = ["Incompatible because of different schema type"]
    assert decider.do(Check(S, None, sent("a"))) == expected
    assert decider.do(Check(S, "latest", sent("a"))) == expected


def test_a_report_has_warnings_too() -> None:
    decider = registered(S, "a")
    assert decider.do(Check(S, None, sent("w"), report=True)) == ([], ["w is not a in spirit"])
    reasons, warnings = decider.do(Check(S, "1", sent("x"), report=True))
    assert (reasons[0], warnings) == ("x is not a", [])
    assert decider.do(Check(subject("t"), None, sent("w"), report=True)) == ([], [])


def test_a_policy_refuses_what_else_is_a_warning() -> None:
    decider = registered(S, "a")
    decider.do(SetConfig(S, {"compatibilityPolicy": "logical"}))
    assert decider.do(Check(S, None, sent("w")))[0] == "w is not a in spirit"
    with pytest.raises(RegistryError) as refused:
        decider.do(Register(S, sent("w")))
    assert refused.value.status == 409


def test_modes_do_not_matter() -> None:
    decider = registered(S, "a")
    decider.do(SetMode(S, "READONLY"))
    assert decider.do(Check(S, None, sent("b"))) == []
