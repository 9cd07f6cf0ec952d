"""Fields that are never shown, and bytes as people read them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark_dashboards.view.clusters.decoded import MOST, plain, shown
from tallymark_dashboards.view.clusters.masks import HIDDEN, Masks

ORDER = {
    "id": 7,
    "email": "a@example.org",
    "user": {"phone": "555", "name": "Ann", "address": {"email": "b@example.org"}},
    "items": [{"price": 3, "code": "x"}, {"price": 4, "code": "y"}],
}


@pytest.mark.parametrize(
    ("settings", "hidden"),
    [
        (["email"], ["a@example.org", "b@example.org"]),
        (["user.phone"], ["555"]),
        (["phone"], ["555"]),
        (["user"], ["555", "Ann", "b@example.org"]),
        (["items.price"], ["3", "4"]),
        (["*.email"], []),  # two names, so one below the top
        (["user.*.email"], ["b@example.org"]),
        (["e*l"], ["a@example.org", "b@example.org"]),
        (["orders-*:id"], ["7"]),
        (["clicks:id", "clicks-*:email"], []),
        (["order"], []),
    ],
)
def test_masks_hide_by_name_by_path_and_by_topic(settings: list[str], hidden: list[str]) -> None:
    masks = Masks.of(settings, "orders-eu")
    text = json.dumps(masks.applied(ORDER))
    every = ("a@example.org", "b@example.org", "555", "Ann", '"x"')
    assert [one for one in every if one not in text] == [one for one in every if one in hidden]
    for number in ("3", "4", "7"):
        assert (f": {number}" not in text) == (number in hidden)
    assert bool(masks.hidden) == bool(hidden)
    assert ORDER["email"] == "a@example.org"  # a copy was changed


def test_where_fields_are_masked_nothing_is_shown_that_could_not_be_decoded() -> None:
    """A value that was not JSON was shown as text and hex, with the field that was to be hidden."""
    masks = Masks.of(["email"], "orders")
    for data in (b'{"email": "a@example.org"', b"email=a@example.org", b"\x00\x01\xff" * 20):
        found = shown(data, masks=masks)
        assert (found.kind, found.text) == ("hidden", "")

    def refuse(raw: bytes) -> tuple[Any, str]:
        raise ValueError(f"cannot read {raw!r}")

    assert "example" not in shown(b"\x00email=a@example.org", refuse, masks).note
    good = shown(b'{"email": "a@example.org", "id": 1}', masks=masks)
    assert (HIDDEN in good.text, "example" in good.text) == (True, False)
    assert "1 fields masked" in good.note


def test_json_behind_the_frame_of_a_json_schema_is_read_and_masked() -> None:
    def refuse(raw: bytes) -> tuple[Any, str]:
        raise ValueError("schema 7 is of the type JSON, not AVRO")

    framed = b'\0\0\0\0\x07{"email": "a@example.org", "id": 1}'
    open_to_all = shown(framed, refuse)
    assert (open_to_all.kind, "of the type JSON" in open_to_all.note) == ("json", True)
    masked = shown(framed, refuse, Masks.of(["email"], "t"))
    assert ("example" in masked.text, '"id": 1' in masked.text) == (False, True)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=25,
)


@given(json_values, st.text(min_size=1, max_size=6))
def test_a_masked_name_is_nowhere_in_what_is_shown(value: Any, name: str) -> None:
    secret = "5ecret-value"
    marked = {"top": value, name: secret, "list": [{name: secret, "x": {name: [secret]}}]}
    path = name.replace("*", "\\").replace(".", "\\").replace(":", "\\")
    if path != name:
        return
    assert secret not in json.dumps(Masks.of([name], "t").applied(marked))


@given(json_values)
def test_without_masks_a_value_stays_as_it_is(value: Any) -> None:
    assert Masks().applied(value) == value


@pytest.mark.parametrize(
    ("data", "kind", "text"),
    [
        (None, "null", ""),
        (b"", "empty", ""),
        (b'{"a":1}', "json", '{\n  "a": 1\n}'),
        (b"[1]", "json", "[\n  1\n]"),
        (b"12", "text", "12"),
        ("grün\n".encode(), "text", "grün\n"),
        (b"{broken", "text", "{broken"),
        (b"\xff\x00", "hex", "00000000  ff 00                                            ..\n"),
        (b"\x1b[2J", "hex", "00000000  1b 5b 32 4a                                      .[2J\n"),
    ],
)
def test_bytes_are_json_text_or_hex(data: bytes | None, kind: str, text: str) -> None:
    found = shown(data)
    assert (found.kind, found.text) == (kind, text.removesuffix("\n") if kind == "hex" else text)


@given(st.binary(max_size=300))
def test_any_bytes_are_shown(data: bytes) -> None:
    assert shown(data).size == len(data)
    assert plain(data) is not None


def test_what_is_long_or_deep_is_cut_and_says_so() -> None:
    assert len(shown(b"x" * 100_000).text) == MOST
    assert "of 100,000 characters" in shown(b"x" * 100_000).note
    assert "of 5,000 bytes" in shown(b"\xff" * 5_000).note
    deep = b"[" * 5_000 + b"]" * 5_000
    assert shown(deep).kind == "text"
    assert shown(deep, masks=Masks.of(["a"], "t")).kind == "hidden"
    assert plain(b"k" * 500).endswith("…")
    assert plain(b"\xff" * 100).endswith("…")
