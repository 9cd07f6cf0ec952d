"""Levels and properties: set, merged, answered, inherited."""

from __future__ import annotations

from typing import Any

import pytest
from decider import PLACE, Decider, subject

from tallymark_schema_registry.catalog.subject import GLOBAL
from tallymark_schema_registry.decisions.commands import DeleteConfig, SetConfig, SetMode
from tallymark_schema_registry.decisions.configuring import config
from tallymark_schema_registry.decisions.scope import level_in_scope
from tallymark_schema_registry.errors import RegistryError

S, C, IN_C = subject("s"), subject(":.c:"), subject(":.c:s")


def test_the_nearest_level_is_in_force() -> None:
    decider = Decider()

    def levels() -> list[str]:
        return [str(level_in_scope(decider.catalog, place)) for place in (S, IN_C)]

    assert levels() == ["BACKWARD", "BACKWARD"]
    decider.do(SetConfig(GLOBAL, {"compatibility": "NONE"}))
    assert levels() == ["NONE", "NONE"]
    decider.do(SetConfig(PLACE, {"compatibility": "FULL"}))
    assert levels() == ["FULL", "NONE"]
    decider.do(SetConfig(C, {"compatibility": "FORWARD"}))
    assert levels() == ["FULL", "FORWARD"]
    decider.do(SetConfig(IN_C, {"compatibility": "BACKWARD_TRANSITIVE"}))
    assert levels() == ["FULL", "BACKWARD_TRANSITIVE"]


def test_a_subject_with_other_properties_has_the_level_of_its_context() -> None:
    """Whoever gives a subject an alias does not mean to change its level."""
    decider = Decider()
    decider.do(SetConfig(PLACE, {"compatibility": "FULL", "normalize": True}))
    decider.do(SetConfig(S, {"alias": "t"}))
    expected = {"alias": "t", "compatibilityLevel": "FULL"}
    assert config(decider.catalog, S, default_to_global=True) == expected
    assert config(decider.catalog, S) == expected


def test_the_answer_says_compatibility() -> None:
    decider = Decider()
    assert decider.do(SetConfig(S, {"compatibility": "full"})) == {"compatibility": "FULL"}
    answer = decider.do(SetConfig(S, {"normalize": True, "compatibilityGroup": "g"}))
    assert answer == {"normalize": True, "compatibility": "FULL", "compatibilityGroup": "g"}


def test_a_request_without_properties_is_answered_with_what_is_in_force() -> None:
    """It was refused."""
    decider = Decider()
    for request in ({}, {"unknown": 1}):
        assert decider.do(SetConfig(PLACE, request)) == {"compatibility": "BACKWARD"}
        assert decider.do(SetConfig(S, request)) == {"compatibility": "BACKWARD"}
    assert decider.catalog.number == 0
    decider.do(SetConfig(S, {"compatibility": "NONE"}))
    assert decider.do(SetConfig(S, {})) == {"compatibility": "NONE"}


def test_null_takes_a_property_away() -> None:
    decider = Decider()
    decider.do(SetConfig(S, {"compatibility": "NONE", "alias": "t", "normalize": True}))
    assert decider.do(SetConfig(S, {"alias": None})) == {"normalize": True, "compatibility": "NONE"}
    assert decider.do(SetConfig(S, {"normalize": None, "compatibility": None})) == {}
    with pytest.raises(RegistryError):
        config(decider.catalog, S)


def test_the_same_again_changes_nothing() -> None:
    decider = Decider()
    for _ in range(2):
        decider.do(SetConfig(S, {"compatibility": "NONE"}))
    assert decider.catalog.number == 1


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ({"compatibility": "x"}, 42203),
        ({"compatibility": 1}, 42203),
        ({"compatibility": ["FULL"]}, 42203),
        ({"compatibility": ""}, 42203),
        ({"compatibilityPolicy": "x"}, 42203),
        ({"compatibilityPolicy": True}, 42203),
        ({"compatibility": "FULL", "alias": 1}, 400),
        ({"normalize": "yes"}, 400),
        ({"normalize": 1}, 400),
        ({"validateFields": {}}, 400),
        ({"compatibilityGroup": []}, 400),
        ({"alias": ":bad"}, 42208),
        ({"alias": "x" * 1001}, 42208),
        ({"alias": "a\nb"}, 400),
        ({"defaultMetadata": []}, 400),
        ({"overrideRuleSet": {"domainRules": [{"name": "r"}]}}, 42210),
    ],
)
def test_what_is_not_valid_is_refused(request_: dict[str, Any], code: int) -> None:
    assert Decider().refused(SetConfig(S, request_)).code == code


def test_flags_may_be_texts() -> None:
    decider = Decider()
    assert decider.do(SetConfig(S, {"normalize": "TRUE", "validateFields": False})) == {
        "normalize": True,
        "validateFields": False,
    }


def test_an_empty_alias_is_none() -> None:
    decider = Decider()
    decider.do(SetConfig(S, {"alias": "t", "normalize": True}))
    assert decider.do(SetConfig(S, {"alias": ""})) == {"normalize": True}


def test_metadata_and_rules_are_stored_and_answered() -> None:
    request = {
        "defaultMetadata": {"properties": {"a": "1"}, "sensitive": ["y", "x"]},
        "overrideRuleSet": {"domainRules": [{"name": "r", "type": "CEL"}]},
    }
    decider = Decider()
    answer = decider.do(SetConfig(S, request))
    assert answer["defaultMetadata"] == {"properties": {"a": "1"}, "sensitive": ["x", "y"]}
    assert answer["overrideRuleSet"]["domainRules"][0]["name"] == "r"
    assert config(decider.catalog, S) == {**answer, "compatibilityLevel": "BACKWARD"}


def test_what_is_not_set_is_said_to_be_so() -> None:
    decider = Decider()
    assert config(decider.catalog, PLACE) == {"compatibilityLevel": "BACKWARD"}
    for place, shown in ((S, "s"), (C, ":.c:"), (GLOBAL, ":.__GLOBAL:")):
        with pytest.raises(RegistryError) as refused:
            config(decider.catalog, place)
        text = f"Subject '{shown}' does not have subject-level compatibility configured"
        assert (refused.value.code, refused.value.message) == (40408, text)


def test_deleting_falls_back_and_answers_what_was_set() -> None:
    decider = Decider()
    assert decider.do(DeleteConfig(PLACE)) == {"compatibilityLevel": "BACKWARD"}
    assert decider.refused(DeleteConfig(S))[1:] == (40401, "Subject 's' not found.")
    decider.do(SetConfig(PLACE, {"compatibility": "FULL"}))
    decider.do(SetConfig(S, {"compatibility": "NONE", "alias": "t"}))
    assert decider.do(DeleteConfig(S)) == {"alias": "t", "compatibilityLevel": "NONE"}
    assert str(level_in_scope(decider.catalog, S)) == "FULL"
    assert decider.do(DeleteConfig(PLACE)) == {"compatibilityLevel": "FULL"}
    assert str(level_in_scope(decider.catalog, S)) == "BACKWARD"


def test_read_only_stops_changes() -> None:
    decider = Decider()
    decider.do(SetConfig(S, {"compatibility": "FULL"}))
    decider.do(SetMode(PLACE, "READONLY"))
    for place in (S, PLACE):
        assert decider.refused(SetConfig(place, {"compatibility": "NONE"})).code == 42205
        assert decider.refused(DeleteConfig(place)).code == 42205
    decider.do(SetConfig(C, {"compatibility": "NONE"}))
