"""Names that strangers chose, in cells."""

import re
from html import unescape

from hypothesis import given
from hypothesis import strategies as st

from tallymark.untrusted import escaped
from tallymark_dashboards.view.names import MOST, breakable, name_html, short


@given(st.text(max_size=300))
def test_no_name_becomes_markup(name: str) -> None:
    for html in (str(name_html(name)), str(breakable(name))):
        bare = re.sub(r"</?(?:wbr|bdi)(?: class=\"[a-z ]+\")?(?: title=\"[^\"]*\")?>", "", html)
        assert "<" not in bare
        assert unescape(bare).isprintable()


@given(st.text(max_size=300))
def test_a_heading_has_the_whole_name(name: str) -> None:
    assert unescape(str(breakable(name)).replace("<wbr>", "")) == escaped(name)


def test_a_long_name_keeps_its_end_and_is_told_as_a_whole() -> None:
    name = "x" * 240 + "-the-end"
    assert len(short(name)) == MOST
    assert short(name).endswith("-the-end")
    assert f'title="{name}"' in name_html(name)


def test_a_name_may_break_after_separators_only() -> None:
    long = "orders.eu-west.returned-to-us"
    pieces = "orders.<wbr>eu-<wbr>west.<wbr>returned-<wbr>to-<wbr>us"
    assert name_html(long) == f'<bdi class="name">{pieces}</bdi>'
    assert name_html("orders.eu-west") == '<bdi class="name nowrap">orders.eu-west</bdi>'


def test_text_from_right_to_left_does_not_turn_the_rest() -> None:
    assert "\u202e" not in name_html("orders\u202edrawkcab")
    assert "\\u202e" in name_html("orders\u202edrawkcab")


def test_a_line_breaks_before_a_path_and_not_behind_its_first_slash() -> None:
    """On a phone a command ended with ``--tails /``, and the path went on as ``var``."""
    broken = str(breakable("repair --tails /var/lib/x.y: done"))
    pieces = broken.split("<wbr>")
    assert pieces == ["repair ", "--tails ", "/var/", "lib/", "x.", "y: ", "done"]
