"""The bodies of both profiles, and what a client may keep. Pure."""

from __future__ import annotations

import pytest

from tallymark_schema_registry import errors
from tallymark_schema_registry.catalog.content import Content, Reference
from tallymark_schema_registry.catalog.subject import Subject
from tallymark_schema_registry.decisions.commands import SchemaView, VersionView
from tallymark_schema_registry.web.answers import etag_of, has_it
from tallymark_schema_registry.web.responses import Profile

MD5 = "0cc175b9c0f1b6a831c399e269772661"
GUID = "0cc175b9-c0f1-b6a8-31c3-99e269772661"
PLAIN = Content('"int"')
RICH = Content(
    '"x.Y"',
    references=(Reference("x.Y", "types", 3),),
    metadata='{"properties":{"a":"b"}}',
    rule_set='{"domainRules":[]}',
)
SEVEN, EIGHT = Profile.SEVEN, Profile.EIGHT


SUBJECT = Subject(".", "s")


def view(content: Content, subject: Subject = SUBJECT) -> VersionView:
    return VersionView(subject, 2, 7, MD5, content, 1_700_000_000_000, "me", False)


def test_a_version() -> None:
    """Java clients before 6.2 fail on a property that they do not know, so profile 7 adds none."""
    seven = {"subject": "s", "version": 2, "id": 7, "schema": '"int"'}
    eight = {
        **seven,
        "guid": GUID,
        "schemaType": "AVRO",
        "ts": 1_700_000_000_000,
        "deleted": False,
    }
    assert SEVEN.version(view(PLAIN)) == seven
    assert EIGHT.version(view(PLAIN)) == eight
    assert SEVEN.registered(view(PLAIN)) == {"id": 7}
    assert EIGHT.registered(view(PLAIN)) == eight


def test_what_a_schema_carries() -> None:
    inside = view(RICH, Subject(".c", "s"))
    body = SEVEN.version(inside)
    assert body["subject"] == ":.c:s"
    assert body["references"] == [{"name": "x.Y", "subject": "types", "version": 3}]
    assert body["metadata"] == {"properties": {"a": "b"}}
    assert body["ruleSet"] == {"domainRules": []}
    assert SEVEN.version(inside, qualified=True)["references"][0]["subject"] == ":.c:types"


def test_a_schema_by_its_id() -> None:
    found = SchemaView(".", 7, MD5, PLAIN)
    named = SchemaView(".", 7, MD5, PLAIN, Subject(".", "s"), 2)
    assert SEVEN.schema(found) == SEVEN.schema(named) == {"schema": '"int"'}
    eight = {"guid": GUID, "schemaType": "AVRO", "schema": '"int"'}
    assert EIGHT.schema(found) == eight
    assert EIGHT.schema(named) == {"subject": "s", "version": 2, **eight}


@pytest.mark.parametrize("profile", Profile)
def test_an_imported_schema_of_another_type_says_so(profile: Profile) -> None:
    found = SchemaView(".", 7, MD5, Content("{}", kind="JSON"))
    assert profile.schema(found)["schemaType"] == "JSON"


def test_the_code_of_an_incompatible_schema() -> None:
    error = errors.incompatible("s", [])
    assert (SEVEN.code(error), EIGHT.code(error)) == (409, 40901)
    missing = errors.subject_not_found("s")
    assert SEVEN.code(missing) == EIGHT.code(missing) == 40401


def test_if_none_match() -> None:
    etag = etag_of(b"body")
    assert etag == etag_of(b"body") != etag_of(b"other")
    assert has_it(etag, etag)
    assert has_it(f'"x", W/{etag}', etag)
    assert has_it("*", etag)
    for other in (None, "", '"x"', etag.strip('"')):
        assert not has_it(other, etag)
