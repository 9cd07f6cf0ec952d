"""Patterns of transactional ids: what they match, what is refused, and that none takes for ever."""

from __future__ import annotations

import random
import re
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tallymark.transactions.patterns import BadPattern, Pattern


@pytest.mark.parametrize(
    ("pattern", "matched", "others"),
    [
        ("orders", ["orders"], ["", "order", "orders-1", "my-orders"]),
        ("", [""], ["a"]),
        ("orders-.*", ["orders-", "orders-1"], ["orders"]),
        ("^orders$", ["orders"], ["xorders"]),
        ("(a|b|)c", ["ac", "bc", "c"], ["abc"]),
        ("(?:ab)+", ["ab", "abab"], ["", "aba"]),
        ("a?b*c+", ["c", "abbc", "ccc"], ["ab", "aac"]),
        ("a{2}", ["aa"], ["a", "aaa"]),
        ("a{2,}", ["aa", "aaaa"], ["a"]),
        ("a{1,3}", ["a", "aaa"], ["", "aaaa"]),
        ("a{0}b", ["b"], ["ab"]),
        ("a+?b??", ["a", "aab"], ["b"]),
        ("[a-c_.]+", ["a_c."], ["d", "-"]),
        ("[^a-c]", ["d", "-"], ["a", ""]),
        ("[]a]", ["]", "a"], ["["]),
        ("[a-]", ["a", "-"], ["b"]),
        (r"\d+\.\w\s", ["12.x "], ["12x "]),
        (r"[\d\-]+", ["1-2"], ["a"]),
        (r"\D\W\S", ["a-b"], ["1-b", "aab", "a- "]),
        ("(?i)Orders-[a-c]", ["ORDERS-B", "orders-b"], ["orders-d"]),
        ("(?i)[^a]", ["b"], ["a", "A"]),
        ("é.", ["éx"], ["e"]),
        ("(a*)*", ["", "aaa"], ["b"]),
    ],
)
def test_what_a_pattern_matches(pattern: str, matched: list[str], others: list[str]) -> None:
    found = Pattern(pattern)
    assert [each for each in (*matched, *others) if found.matches(each)] == matched


@pytest.mark.parametrize(
    "pattern",
    [
        "(", ")", "a)", "(a", "[", "[a", "[z-a]", "*", "a**", "a{", "a{,2}", "a{2,1}", "a{x}",
        "a{2}{3}", "a{5000}", "\\", "\\q", r"\1", "(?=a)", "(?P<n>a)", "(?i", "a^b", "a$b",
        "[[:alpha:]]", r"\pL", "a" * 1001, "(((a{99}){99}){99}){99}",
        "((((){999}){999}){999}){999}",
        "(" * 60 + ")" * 60,
    ],
)  # fmt: skip
def test_what_is_not_known_is_refused(pattern: str) -> None:
    with pytest.raises(BadPattern):
        Pattern(pattern)


def test_a_pattern_on_which_others_go_back_for_ever_is_matched_at_once() -> None:
    """Python's ``re`` needs 2^30 steps for the first one."""
    for pattern in ("(a+)+b", "(a|a)*b", "(a*)*b", "(.*a){12}b"):
        assert not Pattern(pattern).matches("a" * 2_000)


def test_ids_that_take_too_long_together_end_in_an_error() -> None:
    """Each set of places is new here: nothing that is remembered helps."""
    pattern = Pattern("(a|b)*a(a|b){200}")
    name = "".join(random.Random(1).choices("ab", k=30_000))
    with pytest.raises(BadPattern, match="too long"):
        pattern.matches(name)


_ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\d", "1", "x"])
_PATTERNS = st.recursive(
    _ATOMS,
    lambda inner: (
        st.tuples(inner, inner).map("".join)
        | st.tuples(inner, inner).map(lambda two: f"({two[0]}|{two[1]})")
        | st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "{1,}"])).map(
            lambda two: f"(?:{two[0]}){two[1]}"
        )
    ),
    max_leaves=6,
)


@given(_PATTERNS, st.text("ab1x", max_size=6))
@example("(?:(?:a)*)*", "aa")
def test_it_matches_what_pythons_engine_does(pattern: str, name: str) -> None:
    assert Pattern(pattern).matches(name) == (re.fullmatch(pattern, name) is not None)


@given(st.text("ab([{|)]}*+?\\^$.-,12:diP<é", max_size=20))
def test_any_text_is_a_pattern_or_refused(text: str) -> None:
    with suppress(BadPattern):
        Pattern(text).matches("orders-1")
