"""A form proves that it is ours: the token of another user, browser, action or time does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark_dashboards.access.form_tokens import LASTS_MS, FormTokens, Proof, new_browser

NOW = 1_767_268_800_000
TOKENS = FormTokens(b"k" * 32)
BROWSER = new_browser()
TEXT = st.text(max_size=40)


def test_a_form_of_ours_is_taken_until_its_end() -> None:
    token = TOKENS.make("alice", BROWSER, "accept", NOW)
    assert TOKENS.check(token, "alice", BROWSER, "accept", NOW) is Proof.OURS
    assert TOKENS.check(token, "alice", BROWSER, "accept", NOW + LASTS_MS - 1) is Proof.OURS
    assert TOKENS.check(token, "alice", BROWSER, "accept", NOW + LASTS_MS) is Proof.EXPIRED


@pytest.mark.parametrize(
    ("user", "browser", "action"),
    [
        ("mallory", BROWSER, "accept"),
        ("alice", new_browser(), "accept"),
        ("alice", BROWSER, "repair"),
        ("alice", "", "accept"),
        ("", BROWSER, "accept"),
    ],
    ids=["user", "browser", "action", "no browser", "no user"],
)
def test_the_token_of_another_is_foreign(user: str, browser: str, action: str) -> None:
    token = TOKENS.make("alice", BROWSER, "accept", NOW)
    assert TOKENS.check(token, user, browser, action, NOW) is Proof.FOREIGN


def test_a_token_of_another_key_is_foreign() -> None:
    token = FormTokens().make("alice", BROWSER, "accept", NOW)
    assert TOKENS.check(token, "alice", BROWSER, "accept", NOW) is Proof.FOREIGN


def test_a_later_end_needs_another_code() -> None:
    end, _, code = TOKENS.make("alice", BROWSER, "accept", NOW).partition(".")
    later = f"{int(end) + LASTS_MS}.{code}"
    assert TOKENS.check(later, "alice", BROWSER, "accept", NOW) is Proof.FOREIGN


@given(st.one_of(TEXT, st.just("٣.") | st.from_regex(r"[0-9]{1,15}\.[0-9a-f]{64}", fullmatch=True)))
def test_what_we_did_not_make_is_foreign_and_raises_nothing(text: str) -> None:
    assert TOKENS.check(text, "alice", BROWSER, "accept", NOW) is Proof.FOREIGN


@given(st.lists(TEXT, min_size=2, max_size=2), st.lists(TEXT, min_size=2, max_size=2))
def test_no_two_forms_have_the_same_token(one: list[str], other: list[str]) -> None:
    """A user called ``a|b`` could have had the token of the user ``a`` for the action ``b|...``."""
    first = TOKENS.make(one[0], BROWSER, one[1], NOW)
    found = TOKENS.check(first, other[0], BROWSER, other[1], NOW)
    assert (found is Proof.OURS) == (one == other)
