"""Lists of subjects, versions and schemas, and schemas by id and guid."""

from __future__ import annotations

from typing import Any

import pytest
from decider import Decider, sent, subject

from tallymark_schema_registry.catalog.content import guid_of
from tallymark_schema_registry.catalog.contracts import metadata_text
from tallymark_schema_registry.catalog.subject import Subject
from tallymark_schema_registry.decisions import by_id, lists
from tallymark_schema_registry.decisions.commands import (
    DeleteSubject,
    DeleteVersion,
    Register,
    SetConfig,
)
from tallymark_schema_registry.errors import RegistryError

S, PLACE = subject("s"), Subject(".", "")


def _decider(*names_and_texts: tuple[str, str]) -> Decider:
    decider = Decider()
    for name, text in names_and_texts:
        decider.do(Register(subject(name), sent(text)))
    return decider


def _code(call: Any, *args: Any, **more: Any) -> int:
    with pytest.raises(RegistryError) as refused:
        call(*args, **more)
    return refused.value.code


@pytest.mark.parametrize(
    ("offset", "limit", "expected"),
    [
        (0, -1, "abcde"),
        (0, 0, "abcde"),
        (2, 0, "cde"),
        (1, 2, "bc"),
        (-3, 2, "ab"),
        (9, 2, ""),
        (0, 10**30, "abcde"),
    ],
)
def test_a_limit_of_zero_or_below_is_none(offset: int, limit: int, expected: str) -> None:
    """With ``limit=0`` nothing was answered."""
    assert lists.page("abcde", offset, limit) == expected


def _world() -> Decider:
    decider = _decider(("b", "1"), ("a", "1"), ("ab", "1"), (":.c:a", "1"), (":.cc:b", "1"))
    decider.do(DeleteSubject(subject("ab")))
    return decider


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("", [":.c:a", ":.cc:b", "a", "b"]),
        (":*:", [":.c:a", ":.cc:b", "a", "b"]),
        (":*:a", [":.c:a", "a"]),
        ("a", ["a"]),
        (":.:", ["a", "b"]),
        (":.:b", ["b"]),
        (":.c:", [":.c:a"]),
        (":.c:b", []),
        (":.c", [":.c:a", ":.cc:b"]),
        (":", [":.c:a", ":.cc:b", "a", "b"]),
        ("x", []),
    ],
)
def test_subjects_by_prefix(prefix: str, expected: list[str]) -> None:
    assert lists.subjects(_world().catalog, prefix) == expected


def test_subjects_of_a_context() -> None:
    catalog = _world().catalog
    assert lists.subjects(catalog, "", context=".c") == [":.c:a"]
    assert lists.subjects(catalog, "b", context=".cc") == [":.cc:b"]
    assert lists.subjects(catalog, "", context=".nobody") == []


def test_subjects_that_are_deleted() -> None:
    decider = _world()
    decider.do(Register(subject("b"), sent("2")))
    decider.do(DeleteVersion(subject("b"), "1"))
    catalog = decider.catalog
    assert lists.subjects(catalog, ":.:", deleted=True) == ["a", "ab", "b"]
    assert lists.subjects(catalog, "", deleted_only=True) == ["ab"]
    assert lists.subjects(catalog, "", deleted=True, deleted_only=True) == ["ab"]
    decider.do(DeleteSubject(subject("ab"), permanent=True))
    assert lists.subjects(catalog, "", deleted=True) == [":.c:a", ":.cc:b", "a", "b"]


def test_versions() -> None:
    decider = _decider(("s", "1"), ("s", "2"), ("s", "3"))
    decider.do(DeleteVersion(S, "2"))
    catalog = decider.catalog
    assert lists.versions(catalog, S) == [1, 3]
    assert lists.versions(catalog, S, deleted=True) == [1, 2, 3]
    assert lists.versions(catalog, S, deleted_only=True) == [2]
    assert lists.versions(catalog, S, deleted_as_negative=True) == [1, -2, 3]
    decider.do(DeleteSubject(S))
    assert _code(lists.versions, catalog, S) == 40401
    assert lists.versions(catalog, S, deleted=True) == [1, 2, 3]
    assert _code(lists.versions, catalog, subject("t"), deleted=True) == 40401


def test_no_version_may_be_deleted() -> None:
    assert lists.versions(_decider(("s", "1")).catalog, S, deleted_only=True) == []


def test_one_version() -> None:
    decider = _decider(("s", "1"), ("s", "2"))
    catalog = decider.catalog
    for spec, number in (("1", 1), ("2", 2), ("latest", 2), ("LATEST", 2), ("-1", 2)):
        assert lists.version(catalog, S, spec).version.version == number
    decider.do(DeleteVersion(S, "2"))
    assert lists.version(catalog, S, "latest").version.version == 1
    assert lists.version(catalog, S, "latest", deleted=True).version.version == 1
    assert lists.version(catalog, S, "2", deleted=True).version.version == 2
    assert _code(lists.version, catalog, S, "2") == 40402
    assert _code(lists.version, catalog, S, "3", deleted=True) == 40402
    assert _code(lists.version, catalog, subject("t"), "1") == 40401
    decider.do(DeleteSubject(S))
    assert _code(lists.version, catalog, S, "1") == 40401
    assert _code(lists.version, catalog, S, "latest", deleted=True) == 40402
    assert lists.version(catalog, S, "1", deleted=True).version.version == 1


@pytest.mark.parametrize("spec", ["0", "-2", "x", "", "1.0", "١", "2147483648", "9" * 5000, " 1"])
def test_a_version_that_is_no_number(spec: str) -> None:
    assert _code(lists.version, _decider(("s", "1")).catalog, S, spec) == 42202


def test_a_version_in_another_context() -> None:
    catalog = _decider((":.d:s", "1"), (":.c:s", "1")).catalog
    assert lists.version(catalog, S, "1").subject == subject(":.c:s")
    assert _code(lists.version, catalog, subject(":.e:s"), "1") == 40401


def test_all_versions() -> None:
    decider = _decider(("s", "1"), ("s", "2"), ("a", "1"), (":.c:s", "1"))
    decider.do(DeleteVersion(S, "2"))

    def found(*args: Any, **more: Any) -> list[tuple[str, int]]:
        result = lists.all_versions(decider.catalog, *args, **more)
        return [(one.subject.qualified, one.version.version) for one in result]

    assert found() == [(":.c:s", 1), ("a", 1), ("s", 1)]
    assert found("s", deleted=True) == [("s", 1), ("s", 2)]
    assert found(latest_only=True) == [(":.c:s", 1), ("a", 1), ("s", 1)]
    assert found("s", latest_only=True, deleted=True) == [("s", 2)]
    assert found(context=".c") == [(":.c:s", 1)]
    assert found(offset=1, limit=1) == [("a", 1)]
    assert found(limit=2) == [(":.c:s", 1), ("a", 1)]
    assert found(offset=2, limit=0) == [("s", 1)]
    assert found(offset=5) == []
    decider.do(SetConfig(subject("alias"), {"alias": "s"}))
    assert found("al") == []
    assert found("al", aliases=True) == [("s", 1)]
    assert lists.aliases_of(decider.catalog, "al") == {S: ["alias"]}
    assert lists.aliases_of(decider.catalog, "x") == {}


def test_the_latest_with_metadata() -> None:
    decider = Decider()
    for text, owner in (("1", "ann"), ("2", "bob"), ("3", "ann")):
        properties = {"properties": {"owner": owner, "n": text}}
        decider.do(Register(S, sent(text, metadata=metadata_text(properties))))
    catalog = decider.catalog
    assert lists.latest_with_metadata(catalog, S, {"owner": "ann"}).version.version == 3
    assert lists.latest_with_metadata(catalog, S, {"owner": "bob"}).version.version == 2
    assert lists.latest_with_metadata(catalog, S, {}).version.version == 3
    assert _code(lists.latest_with_metadata, catalog, S, {"owner": "ann", "n": "2"}) == 40403
    assert _code(lists.latest_with_metadata, catalog, subject("t"), {}) == 40401
    decider.do(DeleteVersion(S, "2"))
    assert _code(lists.latest_with_metadata, catalog, S, {"owner": "bob"}) == 40403
    found = lists.latest_with_metadata(catalog, S, {"owner": "bob"}, deleted=True)
    assert found.version.version == 2


# --- by id


def test_a_schema_by_id_in_its_context() -> None:
    catalog = _decider(("s", "1"), (":.c:s", "2"), (":.c:t", "1")).catalog
    assert by_id.by_id(catalog, 1, PLACE).schema.md5 == catalog.contexts["."].schemas[1].md5
    located = by_id.by_id(catalog, 1, subject(":.c:"))
    assert (located.context, located.found) == (".c", None)
    assert _code(by_id.by_id, catalog, 2, PLACE) == 40403
    assert _code(by_id.by_id, catalog, 9, subject(":.nobody:")) == 40403


def test_a_schema_by_id_with_a_subject() -> None:
    """A consumer sends the topic's subject with the id; the schema may be in a context that it
    does not know of."""
    decider = _decider(("s", "1"), (":.c:s", "0"), (":.c:s", "2"), (":.d:u", "3"))
    catalog = decider.catalog
    located = by_id.by_id(catalog, 2, S)
    assert located.found is not None
    assert (located.context, located.found.version.version) == (".c", 2)
    assert by_id.by_id(catalog, 1, S).context == "."
    fallen_back = by_id.by_id(catalog, 1, subject("t"))
    assert fallen_back.found is not None
    assert fallen_back.found.subject == S
    assert _code(by_id.by_id, catalog, 2, subject("t")) == 40403
    assert _code(by_id.by_id, catalog, 1, subject(":.c:t")) == 40403
    decider.do(SetConfig(subject("t"), {"alias": "s"}))
    assert by_id.by_id(catalog, 2, subject("t")).context == ".c"


def test_a_soft_deleted_schema_is_there_by_id_until_it_is_removed() -> None:
    decider = _decider(("s", "1"))
    decider.do(DeleteSubject(S))
    assert by_id.by_id(decider.catalog, 1, S).schema.schema_id == 1
    decider.do(DeleteSubject(S, permanent=True))
    assert _code(by_id.by_id, decider.catalog, 1, S) == 40403
    assert _code(by_id.by_id, decider.catalog, 1, PLACE) == 40403


def test_who_uses_an_id() -> None:
    decider = _decider(("t", "1"), ("s", "1"), ("s", "2"), (":.c:s", "1"))
    decider.do(DeleteVersion(subject("t"), "1"))
    catalog = decider.catalog
    assert by_id.uses(catalog, 1, PLACE) == [("s", 1)]
    assert by_id.uses(catalog, 1, PLACE, deleted=True) == [("s", 1), ("t", 1)]
    assert by_id.uses(catalog, 1, subject(":.c:")) == [(":.c:s", 1)]
    assert _code(by_id.uses, catalog, 7, PLACE) == 40403
    decider.do(DeleteSubject(S))
    assert by_id.uses(catalog, 1, PLACE) == []


def test_who_refers_to_a_version() -> None:
    decider = _decider(("t", "1"))
    decider.do(Register(S, sent("2", ("t", 1))))
    decider.do(Register(S, sent("3", ("t", 1))))
    decider.do(Register(subject(":.c:s"), sent("4", (":.:t", 1))))
    catalog = decider.catalog
    assert by_id.referenced_by(catalog, subject("t"), "1") == [2, 3]
    assert by_id.referenced_by(catalog, subject("t"), "latest") == [2, 3]
    assert by_id.referenced_by(catalog, S, "1") == []
    decider.do(DeleteVersion(S, "1"))
    assert by_id.referenced_by(catalog, subject("t"), "1") == [3]
    assert by_id.referenced_by(catalog, subject("t"), "1", deleted=True) == [2, 3]
    assert _code(by_id.referenced_by, catalog, subject("t"), "2") == 40402
    assert _code(by_id.referenced_by, catalog, subject("u"), "2") == 40401


def test_guids() -> None:
    catalog = _decider((":.c:s", "0"), (":.c:s", "1"), ("s", "1")).catalog
    guid = guid_of(catalog.contexts["."].schemas[1].md5)
    assert by_id.ids_of_guid(catalog, guid) == [(".", 1), (".c", 2)]
    assert by_id.by_guid(catalog, guid.upper()).context == "."
    for unknown in ("x", "", guid[:-1] + ("0" if guid[-1] != "0" else "1")):
        assert by_id.ids_of_guid(catalog, unknown) == []
        assert _code(by_id.by_guid, catalog, unknown) == 40403


def test_the_highest_id_ever_given() -> None:
    decider = _decider(("s", "1"), ("s", "2"))
    assert by_id.max_id(decider.catalog, ".") == 2
    decider.do(DeleteSubject(S))
    decider.do(DeleteSubject(S, permanent=True))
    assert by_id.max_id(decider.catalog, ".") == 2
    assert by_id.max_id(decider.catalog, ".nobody") == 0
