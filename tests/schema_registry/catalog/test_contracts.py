"""Metadata and rule sets: what is accepted, how layers are merged, and the identity they give."""

from __future__ import annotations

import hashlib
import json

import pytest

from tallymark_schema_registry.catalog.content import Content, Reference, guid_of
from tallymark_schema_registry.catalog.contracts import (
    merged_metadata,
    merged_rule_sets,
    metadata_text,
    property_of,
    rule_set_text,
    version_of,
    with_version,
    without_version,
)
from tallymark_schema_registry.errors import RegistryError

PERSON = json.dumps(
    {
        "type": "record",
        "name": "Person",
        "namespace": "io.confluent.kafka.example",
        "fields": [
            {"name": "name", "type": "string"},
            {"name": "age", "type": "int"},
            {"name": "ssn", "type": "string"},
            {"name": "user", "type": "io.confluent.kafka.example.User"},
            {"name": "address", "type": "io.confluent.kafka.example.Address"},
        ],
    },
    separators=(",", ":"),
)
REFERENCES = (
    Reference("io.confluent.kafka.example.User", "User", 1),
    Reference("io.confluent.kafka.example.Address", "Address", 2),
)
METADATA = {
    "tags": {"environment": ["staging", "production"], "team": ["data-engineering"]},
    "properties": {
        "version": "1.0.0",
        "owner": "data-team",
        "description": "Person schema for user management",
    },
    "sensitive": ["ssn", "credit-card"],
}


def _rule(name: str, doc: str, kind: str, mode: str, what: str, field: str, expr: str) -> object:
    return {
        "name": name,
        "doc": doc,
        "kind": kind,
        "mode": mode,
        "type": what,
        "tags": ["PERSON"],
        "params": {"field": field},
        "expr": expr,
        "onSuccess": "none",
        "onFailure": "error",
        "disabled": False,
    }


RULES = {
    "migrationRules": [
        _rule(
            "upgrade-rule-1",
            "Upgrade rule for field changes",
            "TRANSFORM",
            "UPGRADE",
            "FIELD_UPDATE",
            "name",
            "field.name = field.name.toUpperCase()",
        ),
        _rule(
            "downgrade-rule-1",
            "Downgrade rule for compatibility",
            "TRANSFORM",
            "DOWNGRADE",
            "FIELD_DELETE",
            "ssn",
            "delete field.ssn",
        ),
    ],
    "domainRules": [
        _rule(
            "validation-rule-1",
            "Validate age field",
            "CONDITION",
            "WRITE",
            "FIELD_VALIDATION",
            "age",
            "field.age >= 0 && field.age <= 150",
        ),
        _rule(
            "masking-rule-1",
            "Mask sensitive data on read",
            "TRANSFORM",
            "READ",
            "DATA_MASKING",
            "ssn",
            "field.ssn = '***-**-****'",
        ),
    ],
}


@pytest.mark.parametrize(
    ("references", "metadata", "rules", "guid"),
    [
        (False, False, False, "d629bb05-ad85-3d20-fbcb-895de3c459f7"),
        (False, False, True, "c0708b8f-65f6-b698-bffe-45c1dfa8987c"),
        (False, True, False, "2034166c-90a8-1166-0ff2-f5f62c80dbe0"),
        (False, True, True, "d9877161-cfdf-d8c5-4eb4-ab37ed50e9d5"),
        (True, False, False, "5c08d70e-5347-41b2-6369-199425d044eb"),
        (True, False, True, "96825311-eb10-b7f5-48be-2a023b4c018e"),
        (True, True, False, "3619d8e0-2ee8-de51-0d9e-2520d39174d5"),
        (True, True, True, "589556fb-ad98-e8e0-94fa-e6da3455433a"),
    ],
)
def test_guids_are_those_that_confluents_servers_give(
    references: bool, metadata: bool, rules: bool, guid: str
) -> None:
    """A consumer can find a schema by a guid in a message's header; a registry that computes
    another one for the same schema breaks it. The guids are those that Confluent publishes with
    its tests."""
    content = Content(
        PERSON,
        references=REFERENCES if references else (),
        metadata=metadata_text(METADATA if metadata else None),
        rule_set=rule_set_text(RULES if rules else None),
    )
    assert guid_of(content.md5()) == guid


def test_without_metadata_and_references_the_identity_is_the_md5_of_the_text() -> None:
    expected = hashlib.md5(b'"string"', usedforsecurity=False).hexdigest()
    assert Content('"string"').md5() == expected


def test_sets_have_one_order_and_unknown_attributes_are_left_out() -> None:
    text = metadata_text(
        {"sensitive": ["b", "a", "b"], "tags": {"x": ["2", "1"]}, "note": 1, "properties": {}}
    )
    assert json.loads(text) == {"sensitive": ["a", "b"], "tags": {"x": ["1", "2"]}}
    assert metadata_text(None) == ""
    assert metadata_text({}) == "{}", "said to be empty is not the same as not said"


def test_metadata_and_rule_sets_have_a_size() -> None:
    """Every registration in the subject reads them, while all other requests wait."""
    long = "x" * 100_000
    for call, value in (
        (metadata_text, {"sensitive": [long]}),
        (rule_set_text, {"domainRules": [{"name": "a", "type": "CEL", "expr": long}]}),
    ):
        with pytest.raises(RegistryError) as refused:
            call(value)
        assert refused.value.code == 42209


def test_numbers_among_the_properties_become_texts() -> None:
    assert property_of(metadata_text({"properties": {"a": 1, "b": True, "c": None}}), "a") == "1"


@pytest.mark.parametrize(
    "value",
    [
        [],
        "x",
        {"tags": []},
        {"tags": {"a": "b"}},
        {"properties": {"a": {}}},
        {"properties": ["a"]},
        {"sensitive": {"a": 1}},
        {"sensitive": [1]},
        {"properties": {"a": "\ud800"}},
    ],
)
def test_metadata_of_wrong_types_is_refused(value: object) -> None:
    with pytest.raises(RegistryError) as refused:
        metadata_text(value)
    assert refused.value.code == 400


@pytest.mark.parametrize(
    ("rules", "code"),
    [
        ([], 400),
        ({"domainRules": {}}, 400),
        ({"domainRules": ["x"]}, 400),
        ({"domainRules": [{"name": 1, "type": "CEL"}]}, 400),
        ({"domainRules": [{"name": "a", "type": "CEL", "disabled": "no"}]}, 400),
        ({"domainRules": [{"type": "CEL"}]}, 42210),
        ({"domainRules": [{"name": "", "type": "CEL"}]}, 42210),
        ({"domainRules": [{"name": "1a", "type": "CEL"}]}, 42210),
        ({"domainRules": [{"name": "a b", "type": "CEL"}]}, 42210),
        ({"domainRules": [{"name": "a"}]}, 42210),
        ({"domainRules": [{"name": "a", "type": "CEL", "kind": "OTHER"}]}, 42210),
        ({"domainRules": [{"name": "a", "type": "CEL", "mode": "UPGRADE"}]}, 42210),
        ({"migrationRules": [{"name": "a", "type": "CEL"}]}, 42210),
        ({"domainRules": [{"name": "a", "type": "CEL"}, {"name": "a", "type": "CEL"}]}, 42210),
    ],
)
def test_a_rule_set_that_is_not_valid_is_refused(rules: object, code: int) -> None:
    with pytest.raises(RegistryError) as refused:
        rule_set_text(rules)
    assert refused.value.code == code


def test_rules_have_their_defaults_and_may_have_one_name_in_two_lists() -> None:
    text = rule_set_text(
        {
            "domainRules": [{"name": "a", "type": "CEL"}],
            "encodingRules": [{"name": "a", "type": "CEL", "mode": "WRITE"}],
        }
    )
    assert json.loads(text)["domainRules"] == [
        {"name": "a", "type": "CEL", "kind": "TRANSFORM", "mode": "WRITEREAD", "disabled": False}
    ]


def test_whether_a_rule_is_disabled_and_from_when_count() -> None:
    def md5(**more: object) -> str:
        rules = {"domainRules": [{"name": "a", "type": "CEL", **more}]}
        return Content("t", rule_set=rule_set_text(rules)).md5()

    assert len({md5(), md5(disabled=True), md5(tags=["x"]), md5(params={"x": "y"})}) == 4
    only = {"enableOnlyAt": "client"}
    assert json.loads(rule_set_text(only)) == only
    assert Content("t", rule_set=rule_set_text(only)).md5() != Content("t", rule_set="{}").md5()
    merged = merged_rule_sets(rule_set_text(only), '{"enableOnlyAt":"server"}')
    assert json.loads(merged) == {"enableOnlyAt": "server"}


def test_later_layers_win() -> None:
    merged = merged_metadata(
        metadata_text({"properties": {"a": "1", "b": "1"}, "sensitive": ["x"]}),
        metadata_text({"properties": {"b": "2"}, "tags": {"f": ["PII"]}}),
        "",
        metadata_text({"sensitive": ["y"], "tags": {"f": ["OTHER"]}}),
    )
    assert json.loads(merged) == {
        "properties": {"a": "1", "b": "2"},
        "sensitive": ["x", "y"],
        "tags": {"f": ["OTHER"]},
    }
    assert merged_metadata("", "") == ""
    assert merged_metadata("", "{}") == "{}"


def test_rules_are_merged_by_name() -> None:
    def rules(*names_and_exprs: tuple[str, str]) -> str:
        found = [{"name": n, "type": "CEL", "expr": e} for n, e in names_and_exprs]
        return rule_set_text({"domainRules": found})

    merged = merged_rule_sets(rules(("a", "1"), ("b", "1")), "", rules(("a", "2"), ("c", "2")))
    assert [(r["name"], r["expr"]) for r in json.loads(merged)["domainRules"]] == [
        ("b", "1"),
        ("a", "2"),
        ("c", "2"),
    ]
    assert merged_rule_sets("", "") == ""


def test_the_number_in_the_metadata() -> None:
    text = with_version(metadata_text({"properties": {"a": "b"}}), 7)
    assert version_of(text) == 7
    assert without_version(text) == metadata_text({"properties": {"a": "b"}})
    assert without_version(with_version("", 1)) == "{}"
    assert version_of("") is None
    for unreadable in ("abc", "-1", "", "9" * 30):
        properties = {"properties": {"confluent:version": unreadable}}
        assert version_of(metadata_text(properties)) is None
