"""Rights by patterns of subjects: which operation is allowed on what."""

from __future__ import annotations

import fnmatch
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark_schema_registry.access.grants import (
    ALL,
    EVERYBODY,
    Grant,
    Grants,
    Principal,
    Right,
    allowed,
)
from tallymark_schema_registry.catalog.subject import DEFAULT_CONTEXT, GLOBAL, Subject

READ, WRITE, DELETE, ADMIN = Right


def subject(name: str, context: str = DEFAULT_CONTEXT) -> Subject:
    return Subject(context, name)


@pytest.mark.parametrize(
    ("given_right", "includes"),
    [(READ, {READ}), (WRITE, {READ, WRITE}), (DELETE, {READ, DELETE}), (ADMIN, set(Right))],
)
def test_rights_include_others(given_right: Right, includes: set[Right]) -> None:
    found = {each for each in Right if allowed([Grant(given_right, "a")], each, subject("a"))}
    assert found == includes


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("a", [subject("a")], [subject("ab"), subject("b"), subject("a", ".c"), subject("A")]),
        ("a-*", [subject("a-"), subject("a-b:c")], [subject("a"), subject("ba-b")]),
        ("*-value", [subject("a-value")], [subject("a-value-b"), subject("a-key")]),
        ("*", [subject(""), subject("a"), subject("a.b/c")], [subject("a", ".c")]),
        (":.c:*", [subject("a", ".c"), subject("", ".c")], [subject("a"), subject("a", ".cd")]),
        (":.c*:a", [subject("a", ".c"), subject("a", ".cd")], [subject("a"), subject("b", ".c")]),
        (":*:*", [subject("a"), subject("a", ".c"), subject("", ".c"), GLOBAL], []),
        # Nothing but the star has a meaning.
        ("a.b?[c]", [subject("a.b?[c]")], [subject("axbyc"), subject("a.bxc")]),
        (":.c:", [subject("", ".c")], [subject("a", ".c")]),
    ],
)
def test_patterns(pattern: str, inside: list[Subject], outside: list[Subject]) -> None:
    grants = Grants([Grant(ADMIN, pattern)])
    assert all(grants.allow(ADMIN, each) for each in inside)
    assert not any(grants.allow(ADMIN, each) for each in outside)


@given(
    st.text("ab*", min_size=1, max_size=8).filter(lambda text: not text.startswith(":")),
    st.text("ab", max_size=10),
)
def test_a_star_means_what_it_means_to_a_shell(pattern: str, name: str) -> None:
    expected = fnmatch.fnmatchcase(name, pattern)
    assert Grants([Grant(WRITE, pattern)]).allow(WRITE, subject(name)) == expected


def test_no_name_makes_a_pattern_slow() -> None:
    """A pattern with many stars took the regular expression minutes for one long name, which any
    client may send."""
    grants = Grants([Grant(READ, "*".join("ab" for _ in range(20)) + "*!")])
    began = time.process_time()
    assert not grants.allow(READ, subject("ab" * 500))
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize("pattern", ["", ":", ":a", ":.c", ":c:a", "a\n", "a" * 1001])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="pattern"):
        Grant(READ, pattern)


def test_the_level_of_a_context_is_read_by_whoever_reads_in_it() -> None:
    """Serializers ask for ``/config`` first, also those that may read one subject only."""
    grants = Grants([Grant(READ, "a"), Grant(WRITE, ":.c:b")])
    assert grants.allow(READ, subject(""))
    assert grants.allow(READ, subject("", ".c"))
    assert grants.allow(READ, GLOBAL)
    assert not grants.allow(READ, subject("", ".d"))
    assert not any(grants.allow(right, subject("")) for right in (WRITE, DELETE, ADMIN))


def test_what_nobody_was_given_is_denied() -> None:
    none = Principal("alice", Grants())
    assert not any(none.may(right, subject("a")) for right in Right)
    assert all(EVERYBODY.may(right, subject("a", ".c")) for right in Right)
    assert EVERYBODY.grants is ALL


def test_who_has_all_of_a_context() -> None:
    grants = Grants([Grant(READ, "*"), Grant(READ, ":.c:a*"), Grant(WRITE, ":.d*:*")])
    assert grants.all_of(READ, DEFAULT_CONTEXT)
    assert not grants.all_of(WRITE, DEFAULT_CONTEXT)
    assert not grants.all_of(READ, ".c")
    assert grants.all_of(READ, ".d2")
    assert ALL.all_of(ADMIN, ".x")


def test_views_are_never_shared() -> None:
    """What is remembered for one must not be answered to another, nor after a change."""
    assert len({Grants([Grant(READ, "*")]).view for _ in range(10)}) == 10
