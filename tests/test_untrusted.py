"""Text of strangers: what a terminal, a shell and a JSON parser make of it."""

from __future__ import annotations

import json
import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.untrusted import command, escaped, escaped_bytes, escaped_json


def test_a_name_does_not_run_in_the_shell() -> None:
    """A topic on somebody's Kafka was called ``x; touch /tmp/owned``; the alert said ``See:
    tallymark audit evidence dc1 x; touch /tmp/owned 12:00``, and whoever was on call pasted
    that line."""
    line = command("tallymark audit evidence", "dc1", "x; touch /tmp/owned", "$(id)")
    assert shlex.split(line) == [
        "tallymark", "audit", "evidence", "dc1", "x; touch /tmp/owned", "$(id)",
    ]  # fmt: skip


def test_a_name_is_no_option() -> None:
    """``--yes`` is a legal name of a topic in Kafka."""
    assert command("tallymark topics delete", "--yes") == "tallymark topics delete -- --yes"
    assert command("tallymark audit repair", from_="a b", edge="-e") == (
        "tallymark audit repair --from 'a b' --edge -e"
    )


def test_the_terminal_shows_what_it_would_obey() -> None:
    """A producer's server name ``\\x1b[2J`` cleared the screen of whoever looked, one with U+202E
    showed the rest of its line backwards."""
    assert escaped("a\x1b[2Jb\u202ec\x9bd\n") == "a\\x1b[2Jb\\u202ec\\x9bd\\n"
    assert escaped("Zürich 東京 ✓") == "Zürich 東京 ✓"
    assert escaped("a\nb\tc\r", keep="\n\t") == "a\nb\tc\\r"
    assert escaped_bytes(b"a\x1b]0;t\x07\n\xff\xc2\x9b") == b"a\\x1b]0;t\\x07\n\\xff\\x9b"
    assert escaped_bytes("é\t".encode()) == "é\t".encode()


@given(st.text())
def test_what_is_escaped_prints(text: str) -> None:
    assert escaped(text).isprintable()
    assert escaped(escaped(text)) == escaped(text)


@given(st.binary())
def test_what_bytes_become_prints(data: bytes) -> None:
    shown = escaped_bytes(data).decode()
    assert all(c.isprintable() or c in "\n\t" for c in shown)


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_json_stays_the_same_document(document: object) -> None:
    shown = escaped_json(json.dumps(document, ensure_ascii=False, indent=2))
    assert json.loads(shown) == document
    assert all(c.isprintable() or c == "\n" for c in shown)


@pytest.mark.process
def test_bash_takes_a_quoted_name_for_what_it_is() -> None:
    names = ["a'b", "x; echo y", "\x1b[2J'\\", "$(id)`id`", "*", "\n", "\u202e", ""]
    for name in names:
        line = command("printf %s", name)
        got = subprocess.run(["bash", "-c", line], capture_output=True, check=True).stdout
        assert got == name.encode()
