"""Reasons as registries write them, read for people."""

from __future__ import annotations

from tallymark_schema_registry.cli.reasons import Reason, read_reasons


def test_confluents_form() -> None:
    said = [
        (
            "{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'The field 'b' at path "
            "'/fields/1' in the new schema has no default value', additionalInfo:'b'}"
        ),
        "{errorType:'TYPE_MISMATCH', description:'at path /: int\nstring', additionalInfo:''}",
        "{oldSchemaVersion: 3}",
        '{oldSchema: \'{"type":"record"}\'}',
        "{validateFields: 'false', compatibility: 'BACKWARD'}",
    ]
    assert read_reasons(said) == [
        Reason(
            "READER_FIELD_MISSING_DEFAULT_VALUE",
            "The field 'b' at path '/fields/1' in the new schema has no default value",
            3,
        ),
        Reason("TYPE_MISMATCH", "at path /: int\nstring", 3),
    ]
    assert read_reasons(said)[1].line() == "version 3: TYPE_MISMATCH: at path /: int\nstring"


def test_each_version_has_its_own() -> None:
    one, other = (f"{{errorType:'{name}', description:'x', additionalInfo:''}}" for name in "AB")
    found = read_reasons([one, "{oldSchemaVersion: 2}", other, "{oldSchemaVersion: 1}", one])
    assert found == [Reason("A", "x", 2), Reason("B", "x", 1), Reason("A", "x", None)]


def test_other_texts_stay_as_they_are() -> None:
    """Karapace and Apicurio have sentences of their own."""
    assert read_reasons(["reader type: int not compatible"]) == [
        Reason("", "reader type: int not compatible", None)
    ]
    assert read_reasons(["plain"])[0].line() == "plain"
    assert read_reasons([]) == []
