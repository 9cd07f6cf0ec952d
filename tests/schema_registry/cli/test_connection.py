"""Which registry is meant, and who asks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tallymark.errors import ConnectError, TimedOutError, UserError
from tallymark.serialization import RegistryError
from tallymark_schema_registry.cli.connection import Access, exit_codes, take_access, take_source
from tallymark_schema_registry.transfer.lines import UnreadableError

URL = "http://registry.example:8081"


@pytest.fixture(autouse=True)
def _environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("", "_USER", "_PASSWORD", "_TOKEN"):
        monkeypatch.delenv(f"TALLYMARK_REGISTRY{name}", raising=False)
        monkeypatch.delenv(f"TALLYMARK_SOURCE{name}", raising=False)
    monkeypatch.delenv("TALLYMARK_SETTINGS", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    Path("secret").write_text("s3cret\nmore\n")
    Path("other").write_text("0ther\n")
    Path("settings.toml").write_text(
        '[registry]\nport = 9999\n[security]\nusername = "ops"\npassword_file = "secret"\n'
        'ssl_truststore_location = "ca.pem"\n'
    )


def options(prefix: str = "", **given: str) -> dict[str, Any]:
    names = ("registry", "user", "password_file", "token_file", "ca")
    found: dict[str, Any] = {f"{prefix}{name}": None for name in names}
    return found | ({} if prefix else {"settings": None}) | given


@pytest.mark.parametrize(
    ("given", "environment", "wanted"),
    [
        ({"registry": URL}, {}, Access(URL)),
        ({}, {"": URL}, Access(URL)),
        ({"registry": URL}, {"": "http://other:1"}, Access(URL)),
        ({}, {"": URL, "_USER": "ann", "_PASSWORD": "p"}, Access(URL, "", "ann", "p")),
        ({}, {"": URL, "_TOKEN": "t"}, Access(URL, token="t")),
        ({}, {"": URL, "_USER": "a", "_PASSWORD": "p", "_TOKEN": "t"}, Access(URL, "", "a", "p")),
        (
            {"user": "bob", "password_file": "secret"},
            {"": URL, "_USER": "ann", "_PASSWORD": "p"},
            Access(URL, "", "bob", "s3cret"),
        ),
        (
            {"token_file": "secret", "ca": "my.pem"},
            {"": URL, "_USER": "ann", "_PASSWORD": "p", "_TOKEN": "t"},
            Access(URL, "my.pem", token="s3cret"),
        ),
        (
            {"settings": "settings.toml"},
            {},
            Access("https://127.0.0.1:9999", "ca.pem", "ops", "s3cret"),
        ),
        (
            {"settings": "settings.toml", "token_file": "other"},
            {},
            Access("https://127.0.0.1:9999", "ca.pem", token="0ther"),
        ),
    ],
)  # fmt: skip
def test_options_before_the_environment_before_the_settings(
    given: dict[str, str],
    environment: dict[str, str],
    wanted: Access,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(f"TALLYMARK_REGISTRY{name}", value)
    left = options(**given) | {"subject": "s"}
    found = take_access(left)
    assert left == {"subject": "s"}
    if "settings" in given:
        assert found.url.endswith("127.0.0.1:9999")
        found = Access(wanted.url, found.ca, found.username, found.password, found.token)
    assert found == wanted


def test_the_source_has_a_login_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The target's token must not be sent to the registry that is left behind."""
    monkeypatch.setenv("TALLYMARK_REGISTRY_TOKEN", "t")
    assert take_source(options("from_")) is None
    assert take_source(options("from_", from_registry=URL)) == Access(URL)
    monkeypatch.setenv("TALLYMARK_SOURCE_USER", "ann")
    monkeypatch.setenv("TALLYMARK_SOURCE_PASSWORD", "p")
    assert take_source(options("from_", from_registry=URL)) == Access(URL, "", "ann", "p")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"user": "ann"}, "there is no password of 'ann'; set TALLYMARK_REGISTRY_PASSWORD"),
        ({"user": "ann", "token_file": "secret"}, "two ways to log in"),
        ({"user": "ann", "password_file": "nothing"}, "cannot read the password in nothing"),
    ],
)
def test_a_login_that_cannot_be(given: dict[str, str], says: str) -> None:
    with pytest.raises(UserError, match=says):
        take_access(options(registry=URL, **given))


def test_no_secret_is_shown() -> None:
    assert "s3cret" not in repr(Access(URL, "", "ann", "s3cret", "s3cret"))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConnectError("x", "connect", "refused"), 3),
        (TimedOutError("x"), 3),
        (RegistryError(401, 401, "Unauthorized"), 3),
        (RegistryError(503, 50001, "Error in the backend data store"), 3),
        (UnreadableError("x"), 3),
        (RegistryError(409, 40901, "incompatible"), 1),
        (RegistryError(422, 42205, "read-only"), 1),
        (RegistryError(404, 40401, "not found"), 1),
    ],
)
def test_exit_codes(error: Exception, code: int) -> None:
    with pytest.raises(UserError) as caught, exit_codes():
        raise error
    assert caught.value.exit_code == code
