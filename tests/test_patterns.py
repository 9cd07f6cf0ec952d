"""Regular expressions that people write."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.coordination.consumers.subscriptions import Subscription, topic_filter
from tallymark.errors import UserError
from tallymark.patterns import compile_pattern, pattern_given, require_patterns

# Python refuses each of these with an error of another class. Only the first one was expected: the
# others were a traceback at a command, and ended the member of a group that read such a filter in
# ZooKeeper, where any client may write one.
WRONG = {
    "unclosed": ("shop[", "unterminated character set"),
    "too many times": ("a{99999999999999999999}", "repetition number"),
    "too deep": ("(" * 20_000 + ")" * 20_000, "recursion"),
}


@pytest.mark.parametrize(("pattern", "why"), WRONG.values(), ids=WRONG)
def test_every_wrong_expression_is_one_error(pattern: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"is not a regular expression: .*{why}"):
        compile_pattern(pattern)
    with pytest.raises(UserError, match=f"^--topic '.*{why}.*; mend the pattern$"):
        pattern_given("--topic", pattern)
    with pytest.raises(ValueError, match=r"^lake: '"):
        require_patterns("lake", ["clicks", pattern])
    with pytest.raises(UserError, match="the topic filter"):
        Subscription({pattern: 1}, is_filter=True)
    with pytest.raises(UserError, match="the topic filter"):
        topic_filter("clicks", deny=pattern)


def test_a_long_expression_is_shown_in_part() -> None:
    with pytest.raises(ValueError, match=r"^'\({200}'\.\.\. is not") as caught:
        compile_pattern("(" * 20_000)
    assert len(str(caught.value)) < 400


@given(st.text(max_size=30))
def test_any_text_is_compiled_or_refused(pattern: str) -> None:
    try:
        compiled = compile_pattern(pattern)
    except ValueError:
        with pytest.raises(ValueError, match=re.escape(repr(pattern))):
            require_patterns("audit", [pattern])
    else:
        assert compiled.pattern == pattern
        require_patterns("audit", [pattern])
