"""How paths, parameters and headers are read. Pure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark_schema_registry.errors import RegistryError
from tallymark_schema_registry.web.negotiate import V1, answer_type, body_type_is_fine
from tallymark_schema_registry.web.params import Page, integer, is_true
from tallymark_schema_registry.web.paths import path_of, split_context


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (b"/subjects/", "/subjects"),
        (b"/subjects/a%2Fb/versions//", "/subjects/a%2Fb/versions"),
        (b"/subjects?deleted=true", "/subjects"),
        (b"/", "/"),
        (b"", "/"),
    ],
)
def test_a_path_is_routed_as_it_was_sent(raw: bytes, path: str) -> None:
    """A subject may have a slash in its name; decoded before routing it would be two segments."""
    assert path_of({"raw_path": raw, "path": "/"}) == path


def test_the_context_of_a_path() -> None:
    assert split_context("/contexts/.c/subjects/s") == (".c", "/subjects/s")
    assert split_context("/contexts/:.c:/config") == (".c", "/config")
    assert split_context("/contexts/%3A.c%3A/mode") == (".c", "/mode")
    for path in ("/contexts", "/contexts/.c", "/subjects/contexts/.c", "/"):
        assert split_context(path) == ("", path)
    for name in ("c", ".a:b", "%00", ":", "::"):
        with pytest.raises(RegistryError) as raised:
            split_context(f"/contexts/{name}/subjects")
        assert raised.value.code == 42208


@given(st.integers(-(2**31), 2**31 - 1))
def test_numbers_of_32_bits(number: int) -> None:
    assert integer(str(number)) == number


@given(st.integers().filter(lambda n: not -(2**31) <= n < 2**31) | st.text())
def test_what_is_no_number(text: object) -> None:
    sent = str(text)
    if sent.removeprefix("-").isascii() and sent.removeprefix("-").isdigit() and len(sent) < 10:
        return
    with pytest.raises(ValueError, match="not a number"):
        integer(sent)


@given(st.text())
def test_a_flag_is_never_an_error(text: str) -> None:
    assert is_true(text) is (text.lower() == "true")


def test_pages() -> None:
    items = list(range(10))
    assert Page(0, None).of(items) == items
    assert Page(3, 2).of(items) == [3, 4]
    assert Page(20, 5).of(items) == []


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", V1),
        ("*/*", V1),
        ("*/anything", V1),
        ("*/anything;q=0", None),
        ("application/json", "application/json"),
        ("application/json;q=0.9, */*;q=0.1", "application/json"),
        ("text/plain", None),
        (f"{V1};q=0, application/*", "application/vnd.schemaregistry+json"),
    ],
)
def test_the_type_of_an_answer(accept: str, kind: str | None) -> None:
    assert answer_type(accept) == kind


def test_the_types_of_bodies() -> None:
    for kind in (V1, "application/json; charset=utf-8", "APPLICATION/JSON", ""):
        assert body_type_is_fine(kind)
    for kind in ("text/plain", "application/xml", "multipart/form-data; boundary=x"):
        assert not body_type_is_fine(kind)
