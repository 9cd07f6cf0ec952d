"""Registration: what is known, what becomes a version, under which number and id."""

from __future__ import annotations

from typing import Any

import pytest
from decider import Decider, content, sent, subject

from tallymark_schema_registry.catalog.content import Content
from tallymark_schema_registry.catalog.contracts import metadata_text, rule_set_text
from tallymark_schema_registry.catalog.records import SchemaAdded, VersionAdded, VersionRemoved
from tallymark_schema_registry.catalog.subject import Subject
from tallymark_schema_registry.decisions.commands import (
    Check,
    Compare,
    Decision,
    DeleteSubject,
    DeleteVersion,
    Found,
    Import,
    Parse,
    Register,
    Sent,
    SetConfig,
    SetMode,
)
from tallymark_schema_registry.decisions.decide import decide


def _register(decider: Decider, name: str, body: Sent, **more: Any) -> tuple[int, int]:
    """(version, id)."""
    found: Found = decider.do(Register(subject(name), body, **more))
    return found.version.version, found.version.schema_id


def test_a_new_schema_gets_the_next_version_and_id() -> None:
    decider = Decider()
    assert _register(decider, "s", sent("a")) == (1, 1)
    assert _register(decider, "s", sent("b")) == (2, 2)
    assert _register(decider, "t", sent("c")) == (1, 3)
    assert decider.records[0] == SchemaAdded(".", 1, Content("a").md5())
    assert isinstance(decider.records[1], VersionAdded)
    assert decider.texts[".", 2] == "b"


def test_a_known_schema_changes_nothing() -> None:
    decider = Decider()
    _register(decider, "s", sent("a"))
    _register(decider, "s", sent("b"))
    assert _register(decider, "s", sent(" a ")) == (1, 1)
    assert decider.catalog.number == 4


def test_a_content_has_one_id_in_a_context_and_another_one_elsewhere() -> None:
    decider = Decider()
    _register(decider, "s", sent("b"))
    assert _register(decider, "s", sent("a")) == (2, 2)
    assert _register(decider, "t", sent("a")) == (1, 2)
    assert _register(decider, ":.c:t", sent("a")) == (1, 1)


def test_the_reply_is_what_the_catalog_has_afterwards() -> None:
    decider = Decider()
    command = Register(subject("s"), sent("a", metadata=metadata_text({"sensitive": ["p"]})))
    reply = decider.do(command)
    assert reply.version == decider.catalog.version(subject("s"), 1)
    there = decider.catalog.schema(".", 1)
    assert there is not None
    assert reply.schema.content("a") == there.content("a")
    assert there.md5 == there.content("a").md5()


def test_who_and_when_stand_on_the_version() -> None:
    decider = Decider()
    found = decider.do(Register(subject("s"), sent("a"), by="ann"))
    assert found.version.by == "ann"
    assert found.version.at_ms == decider.now_ms


def test_a_known_schema_is_answered_in_read_only_mode() -> None:
    """Producers register their schemas at every start; READONLY must not stop them."""
    decider = Decider()
    _register(decider, "s", sent("a"))
    decider.do(SetMode(Subject(".", ""), "READONLY"))
    assert _register(decider, "s", sent("a")) == (1, 1)
    assert decider.refused(Register(subject("s"), sent("b"))).code == 42205
    assert decider.refused(Register(subject("t"), sent("a"))).code == 42205


def test_a_stored_schema_that_would_not_be_accepted_today_is_still_known() -> None:
    """A stored text was parsed as strictly as a new one: a producer whose schema had been accepted
    years ago could not start any more."""
    decider = Decider()
    decider.do(SetMode(subject("s"), "IMPORT"))
    _register(decider, "s", sent("~a", schema_id=7, version=1))
    decider.do(SetMode(subject("s"), "READWRITE"))
    assert _register(decider, "s", sent("~a")) == (1, 7)
    error = decider.refused(Register(subject("s"), sent("~b")))
    assert (error.code, "only old schemas" in error.message) == (42201, True)


def test_a_text_that_cannot_be_read_is_refused() -> None:
    assert Decider().refused(Register(subject("s"), sent("!"))).code == 42201


# --- comparing


def test_an_incompatible_schema_is_refused_with_the_details() -> None:
    decider = Decider()
    _register(decider, "s", sent("a"))
    _register(decider, "s", sent("b"))
    error = decider.refused(Register(subject("s"), sent("x")))
    assert (error.status, error.code) == (409, 409)
    assert error.message == (
        'Schema being registered is incompatible with an earlier schema for subject "s", '
        "details: [x is not b, {oldSchemaVersion: 2}, {oldSchema: 'b'}, "
        "{validateFields: 'false', compatibility: 'BACKWARD'}]"
    )


@pytest.mark.parametrize(
    ("level", "versions"),
    [
        ("NONE", []),
        ("BACKWARD", [3]),
        ("FULL", [3]),
        ("BACKWARD_TRANSITIVE", [3, 1]),
        ("forward_transitive", [3, 1]),
    ],
)
def test_the_level_says_with_which_versions_to_compare(level: str, versions: list[int]) -> None:
    decider = Decider()
    for text in "abc":
        _register(decider, "s", sent(text))
    decider.do(DeleteVersion(subject("s"), "2"))
    decider.do(SetConfig(subject("s"), {"compatibility": level}))
    decider.asked.clear()
    _register(decider, "s", sent("d"))
    compared = [asked for asked in decider.asked if isinstance(asked, Compare)]
    assert [version for asked in compared for version, _ in asked.earlier] == versions


def test_force_does_not_compare() -> None:
    decider = Decider()
    _register(decider, "s", sent("a"))
    assert _register(decider, "s", sent("x"), force=True) == (2, 2)


def test_a_comparison_that_was_overtaken_is_asked_for_again() -> None:
    """Of two registrations at once, the second one must be compared with the first."""
    decider = Decider()
    _register(decider, "s", sent("a"))
    slow = Register(subject("s"), sent("b"))
    parse = decide(decider.catalog, slow, 1)
    assert isinstance(parse, Parse)
    slow = Register(subject("s"), sent("b"), parsed=decider.parse(parse))
    compare = decide(decider.catalog, slow, 1)
    assert isinstance(compare, Compare)
    assert slow.parsed is not None
    checked = decider.compare(compare, slow.parsed)
    slow = Register(subject("s"), sent("b"), parsed=slow.parsed, checked=checked)
    assert isinstance(decide(decider.catalog, slow, 1), Decision)
    _register(decider, "s", sent("c"))
    again = decide(decider.catalog, slow, 1)
    assert isinstance(again, Compare)
    assert again.earlier == ((2, 2),)


def test_a_level_that_changed_meanwhile_is_compared_with() -> None:
    decider = Decider()
    _register(decider, "s", sent("a"))
    command = Register(subject("s"), sent("b"))
    parse = decide(decider.catalog, command, 1)
    assert isinstance(parse, Parse)
    command = Register(subject("s"), sent("b"), parsed=decider.parse(parse))
    compare = decide(decider.catalog, command, 1)
    assert isinstance(compare, Compare)
    assert command.parsed is not None
    checked = decider.compare(compare, command.parsed)
    command = Register(subject("s"), sent("b"), parsed=command.parsed, checked=checked)
    decider.do(SetConfig(subject("s"), {"compatibility": "FULL"}))
    assert isinstance(decide(decider.catalog, command, 1), Compare)


def test_groups_are_compared_among_themselves() -> None:
    decider = Decider()
    decider.do(SetConfig(subject("s"), {"compatibilityGroup": "major"}))

    def of_major(number: str) -> str:
        return metadata_text({"properties": {"major": number}})

    _register(decider, "s", sent("a", metadata=of_major("1")))
    assert _register(decider, "s", sent("x", metadata=of_major("2"))) == (2, 2)
    assert _register(decider, "s", sent("b", metadata=of_major("1"))) == (3, 3)
    assert decider.refused(Register(subject("s"), sent("c", metadata=of_major("2")))).code == 409


def test_reserved_names_are_kept_free() -> None:
    decider = Decider()
    decider.do(SetConfig(subject("s"), {"validateFields": True, "compatibility": "NONE"}))

    def body(field: str, *reserved: str) -> Sent:
        properties = {"confluent:reserved": ", ".join(reserved)}
        text = f'{{"type":"record","name":"R","fields":[{{"name":"{field}","type":"int"}}]}}'
        return sent(text, metadata=metadata_text({"properties": properties}))

    _register(decider, "s", body("a", "x", "y"))
    error = decider.refused(Register(subject("s"), body("x", "x", "y")))
    assert error.status == 409
    assert "The new schema has field that conflicts with the reserved field x." in error.message
    assert "validateFields: 'true'" in error.message
    error = decider.refused(Register(subject("s"), body("b", "y")))
    assert "has reserved field x removed from its metadata" in error.message
    assert decider.do(Check(subject("s"), None, body("b", "y")))[0].startswith("The new schema")
    assert _register(decider, "s", body("b", "x", "y", "z")) == (2, 2)
    decider.do(SetConfig(subject("s"), {"validateFields": False}))
    assert _register(decider, "s", body("z", "z")) == (3, 3)


def test_nothing_is_registered_beside_a_schema_of_another_type() -> None:
    """Not even at level NONE: a level promises a check, and no type but Avro can be checked."""
    decider = Decider()
    decider.do(Import(subject("s"), 1, 9, Content("syntax", kind="PROTOBUF")))
    decider.do(SetConfig(subject("s"), {"compatibility": "NONE"}))
    error = decider.refused(Register(subject("s"), sent("a")))
    assert (error.status, "different schema type" in error.message) == (409, True)
    assert decider.refused(Register(subject("t"), Sent("syntax", kind="PROTOBUF"))).code == 42201
    assert _register(decider, "t", sent("a")) == (1, 10)


# --- numbers


def test_a_number_is_never_used_twice_in_a_subject() -> None:
    decider = Decider()
    for text in "ab":
        _register(decider, "s", sent(text))
    decider.do(DeleteSubject(subject("s")))
    decider.do(DeleteSubject(subject("s"), permanent=True))
    assert _register(decider, "s", sent("a")) == (3, 3)


def test_after_a_soft_deletion_the_same_content_is_a_new_version_with_its_old_id() -> None:
    """The new version stands for the old one, which goes for good."""
    decider = Decider()
    _register(decider, "s", sent("a"))
    _register(decider, "s", sent("b"))
    decider.do(DeleteVersion(subject("s"), "1"))
    assert _register(decider, "s", sent("a")) == (3, 1)
    assert decider.records[-2:] == [
        VersionRemoved(".", "s", 1),
        VersionAdded(".", "s", 3, 1, decider.now_ms),
    ]


def test_a_soft_deleted_version_that_something_refers_to_stays() -> None:
    """Deleting it and registering its content again took away what a reference pointed at."""
    decider = Decider()
    _register(decider, "t", sent("a"))
    _register(decider, "s", sent("b", ("t", 1)))
    decider.do(DeleteSubject(subject("s")))
    decider.do(DeleteVersion(subject("t"), "1"))
    assert _register(decider, "t", sent("a")) == (2, 1)
    there = decider.catalog.version(subject("t"), 1)
    assert there is not None
    assert there.deleted


def test_the_expected_version_is_compared_and_set() -> None:
    decider = Decider()
    assert _register(decider, "s", sent("a", version=1)) == (1, 1)
    error = decider.refused(Register(subject("s"), sent("b", version=1)))
    assert (error.code, error.message) == (
        42201,
        "Invalid schema: Version is not one more than previous version",
    )
    assert decider.refused(Register(subject("s"), sent("b", version=3))).code == 42201
    assert _register(decider, "s", sent("b", version=2)) == (2, 2)


def test_a_request_with_a_version_that_is_sent_again_finds_what_the_first_one_did() -> None:
    decider = Decider()
    first = _register(decider, "s", sent("a", version=1))
    assert _register(decider, "s", sent("a", version=1)) == first
    _register(decider, "s", sent("b", version=2))
    assert _register(decider, "s", sent("a", version=1)) == first
    assert decider.catalog.number == 4


def test_version_minus_one_makes_a_schema_the_latest_again() -> None:
    decider = Decider()
    _register(decider, "s", sent("a"))
    _register(decider, "s", sent("b"))
    assert _register(decider, "s", sent("b", version=-1)) == (2, 2)
    assert _register(decider, "s", sent("a", version=-1)) == (3, 3)
    metadata = decider.catalog.contexts["."].schemas[3].metadata
    assert metadata == metadata_text({"properties": {"confluent:version": "3"}})
    assert _register(decider, "s", sent("a", version=-1)) == (3, 3)


@pytest.mark.parametrize("version", [-2, 2**31, 10**30])
def test_a_number_that_is_none_is_refused(version: int) -> None:
    assert Decider().refused(Register(subject("s"), sent("a", version=version))).code == 42202


def test_a_version_of_zero_and_an_id_of_minus_one_are_none() -> None:
    assert _register(Decider(), "s", sent("a", version=0, schema_id=-1)) == (1, 1)


def test_another_command_of_the_batch_has_taken_an_id() -> None:
    decider = Decider()
    decision = decider.decided(Register(subject("s"), sent("a")), {".": 5, ".c": 9})
    assert decision.reply.version.schema_id == 6


def test_ids_and_versions_end_at_31_bits() -> None:
    """An import of the highest id made the next registration give one that no serializer can
    write."""
    decider = Decider()
    decider.do(Import(subject("s"), 2**31 - 1, 2**31 - 1, content("a")))
    assert decider.refused(Register(subject("t"), sent("b"))).code == 42205
    assert _register(decider, "t", sent("a")) == (1, 2**31 - 1)
    decider.do(Import(subject(":.c:s"), 2**31 - 1, 1, content("a")))
    assert decider.refused(Register(subject(":.c:s"), sent("b"))).code == 42205


# --- metadata


def test_metadata_makes_another_schema_and_is_inherited() -> None:
    decider = Decider()
    owner = metadata_text({"properties": {"owner": "ann"}})
    rules = rule_set_text({"domainRules": [{"name": "r", "type": "CEL"}]})
    _register(decider, "s", sent("a"))
    assert _register(decider, "s", sent("a", metadata=owner, rule_set=rules)) == (2, 2)
    assert _register(decider, "s", sent("b")) == (3, 3)
    schema = decider.catalog.contexts["."].schemas[3]
    assert (schema.metadata, schema.rule_set) == (owner, rules)
    assert _register(decider, "s", sent("b")) == (3, 3), "the metadata is not sent again"
    assert _register(decider, "s", sent("a")) == (1, 1), "as it was sent is looked for first"
    assert _register(decider, "s", sent("c", metadata="{}")) == (4, 4)
    assert decider.catalog.contexts["."].schemas[4].metadata == "{}"


def test_an_empty_text_means_the_latest_one_with_other_metadata() -> None:
    decider = Decider()
    _register(decider, "t", sent("t"))
    _register(decider, "s", sent("a", ("t", 1)))
    owner = metadata_text({"properties": {"owner": "ann"}})
    for empty in ("", "  ", None):
        assert _register(decider, "s", sent(empty, metadata=owner)) == (2, 3)
    schema = decider.catalog.contexts["."].schemas[3]
    assert (decider.texts[".", 3], schema.metadata) == ("a", owner)
    assert schema.references == decider.catalog.contexts["."].schemas[2].references
    assert decider.refused(Register(subject("new"), sent(""))).code == 42201
    decider.do(SetMode(subject("s"), "READONLY"))
    assert decider.refused(Register(subject("s"), sent("", metadata="{}"))).code == 42205


def test_defaults_and_overrides_of_the_config() -> None:
    decider = Decider()
    config = {
        "defaultMetadata": {"properties": {"a": "default", "b": "default"}},
        "overrideMetadata": {"properties": {"c": "override"}},
        "defaultRuleSet": {"domainRules": [{"name": "r", "type": "CEL"}]},
    }
    decider.do(SetConfig(subject("s"), config))
    body = sent("a", metadata=metadata_text({"properties": {"b": "own", "c": "own"}}))
    _register(decider, "s", body)
    schema = decider.catalog.contexts["."].schemas[1]
    expected = {"properties": {"a": "default", "b": "own", "c": "override"}}
    assert schema.metadata == metadata_text(expected)
    assert schema.rule_set == rule_set_text(config["defaultRuleSet"])
    assert _register(decider, "s", body) == (1, 1)
    assert _register(decider, "s", sent("a")) == (1, 1)


def test_the_version_in_the_metadata_follows_the_number() -> None:
    """A client reads the latest version, changes its text, and sends it with its metadata."""
    decider = Decider()
    one = metadata_text({"properties": {"confluent:version": "1", "owner": "ann"}})
    assert _register(decider, "s", sent("a", metadata=one)) == (1, 1)
    assert _register(decider, "s", sent("b", metadata=one)) == (2, 2)
    two = metadata_text({"properties": {"confluent:version": "2", "owner": "ann"}})
    assert decider.catalog.contexts["."].schemas[2].metadata == two
    without = metadata_text({"properties": {"owner": "ann"}})
    assert _register(decider, "s", sent("b", metadata=without)) == (2, 2)
    assert _register(decider, "s", sent("a", metadata=one)) == (1, 1)
    assert _register(decider, "s", sent("a", metadata=two)) == (3, 3), "version 2 is not that"


def test_contents_whose_hash_runs_together_are_two_schemas() -> None:
    """The texts of the metadata are hashed one after the other, so different ones can have one
    hash. They would have got one id."""
    decider = Decider()
    one = metadata_text({"properties": {"a": "bc"}})
    other = metadata_text({"properties": {"ab": "c"}})
    assert Content("t", metadata=one).md5() == Content("t", metadata=other).md5()
    assert _register(decider, "s", sent("t", metadata=one)) == (1, 1)
    assert _register(decider, "s", sent("t", metadata=other)) == (2, 2)
    assert _register(decider, "s", sent("t", metadata=one)) == (1, 1)


# --- aliases, names, normalizing


def test_an_alias_is_followed_once() -> None:
    decider = Decider()
    decider.do(SetConfig(subject("a"), {"alias": "b"}))
    decider.do(SetConfig(subject("b"), {"alias": "c"}))
    found = decider.do(Register(subject("a"), sent("t")))
    assert found.subject == subject("b")
    decider.do(SetConfig(subject(":.c:a"), {"alias": "b"}))
    found = decider.do(Register(subject(":.c:a"), sent("t")))
    assert found.subject == subject(":.c:b")


@pytest.mark.parametrize("name", ["", ":.c:", ":.__GLOBAL:s", ":.__GLOBAL:"])
def test_a_place_that_is_no_subject_is_refused(name: str) -> None:
    assert Decider().refused(Register(subject(name), sent("a"))).code == 42208


def test_an_alias_to_a_place_that_is_no_subject_is_refused() -> None:
    decider = Decider()
    decider.do(SetConfig(subject("a"), {"alias": ":.c:"}))
    assert decider.refused(Register(subject("a"), sent("t"))).code == 42208


def test_normalizing_is_asked_for_by_the_request_or_the_config() -> None:
    decider = Decider()
    _register(decider, "s", sent("A"), normalize=True)
    assert decider.texts[".", 1] == "a"
    decider.do(SetConfig(Subject(".", ""), {"normalize": True}))
    assert _register(decider, "s", sent("A")) == (1, 1)


def test_half_of_a_surrogate_pair_is_refused() -> None:
    """A text that has no UTF-8 cannot be hashed nor stored; it was a 500."""
    bad = Sent("a\ud800")
    assert Decider().refused(Register(subject("s"), bad)).code == 42201
