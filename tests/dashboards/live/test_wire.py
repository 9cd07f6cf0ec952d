"""Events as bytes: what a browser, curl and httpx unpack."""

from __future__ import annotations

import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark_dashboards.live import wire
from tallymark_dashboards.live.feeds import Beat, Shown, Stale


def unpacked(stream: bytes) -> str:
    """What a client has that unpacks as bytes arrive; nothing is held back."""
    return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(stream).decode()


@given(st.lists(st.text(max_size=2000), max_size=8))
def test_events_that_were_packed_apart_are_one_stream(texts: list[str]) -> None:
    """The same bytes go to all connections, after any others."""
    plain = [text.encode("utf-8", "replace") for text in texts]
    stream = wire.GZIP_HEADER + b"".join(wire.packed(one) for one in plain)
    assert unpacked(stream) == b"".join(plain).decode()


@given(st.binary(max_size=3000))
def test_each_event_can_be_read_as_soon_as_it_has_come(data: bytes) -> None:
    reader = zlib.decompressobj(-zlib.MAX_WBITS)
    assert reader.decompress(wire.packed(b"before")) == b"before"
    assert reader.decompress(wire.packed(data)) == data


@given(st.text(max_size=300), st.text(max_size=300))
def test_a_fragment_cannot_break_out_of_its_event(html: str, title: str) -> None:
    """A line break in a name must not begin a field of its own."""
    found = wire.fragment("abc", html, title, "bad", 3).plain.decode()
    head, name, data, *rest = found.split("\n")
    assert (head, name, rest) == ("id: abc", "event: page", ["", ""])
    assert "\r" not in found
    said = json.loads(data.removeprefix("data: "))
    assert said["html"] == html.encode("utf-8", "replace").decode()
    assert (said["tone"], said["count"], said["digest"]) == ("bad", 3, "abc")


def test_what_is_said_while_nothing_changes_is_small() -> None:
    assert len(wire.event_bytes(Beat(7.9), True)) < 60
    assert wire.event_bytes(Beat(7.9), False) == b'event: beat\ndata: {"age":7}\n\n'


def test_a_page_hears_why_it_is_stale() -> None:
    said = wire.event_bytes(Stale("the disk\nis gone", 3.0), False)
    assert said == b'event: stale\ndata: {"age":3,"reason":"the disk\\nis gone"}\n\n'


def test_a_repetitive_fragment_is_packed_well() -> None:
    made = wire.fragment("abc", "<tr><td>clicks</td></tr>" * 500, "", "", 0)
    assert len(made.packed) < len(made.plain) / 20
    assert wire.event_bytes(Shown(made), True) == made.packed


@pytest.mark.parametrize(
    ("header", "takes"),
    [
        ("gzip, deflate, br", True),
        ("br;q=1.0, GZIP;q=0.5", True),
        ("*", True),
        ("gzip;q=0", False),
        ("gzip;q=x", False),
        ("identity", False),
        ("", False),
        ("*;q=0", False),
    ],
)
def test_gzip_is_sent_only_to_who_takes_it(header: str, takes: bool) -> None:
    assert wire.takes_gzip(header) is takes
