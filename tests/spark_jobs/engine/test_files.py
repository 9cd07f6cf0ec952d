"""A path of the driver means nothing to an executor."""

from __future__ import annotations

from pathlib import Path

import pytest

from tallymark.client.core.security.security import SecuritySettings
from tallymark.errors import UserError
from tallymark_spark_jobs.engine import files
from tallymark_spark_jobs.engine.files import here, located


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an executor, where --files has left copies."""
    monkeypatch.chdir(tmp_path)
    for name in ("ca.pem", "token"):
        (tmp_path / name).write_text("copy")
    return tmp_path


def test_a_mounted_file_is_taken_as_it_is(elsewhere: Path) -> None:
    mounted = elsewhere / "mounted"
    mounted.mkdir()
    (mounted / "ca.pem").write_text("mounted")
    assert here(str(mounted / "ca.pem")) == str(mounted / "ca.pem")


def test_else_the_copy_that_files_has_brought(elsewhere: Path) -> None:
    """Executors looked for the driver's /etc/tallymark/ca.pem, and could not connect."""
    assert here("/nowhere/ca.pem") == "ca.pem"
    assert here("ca.pem") == "ca.pem"


def test_or_where_spark_keeps_the_copies_of_a_driver(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = elsewhere / "userFiles"
    kept.mkdir()
    (kept / "key.pem").write_text("copy")
    monkeypatch.setattr(files, "_brought", lambda: kept)
    assert here("/nowhere/key.pem") == str(kept / "key.pem")


def test_a_file_that_is_nowhere_is_named_with_what_to_do(elsewhere: Path) -> None:
    with pytest.raises(UserError, match=r"/nowhere/key.pem of the settings is not on this") as told:
        here("/nowhere/key.pem")
    assert "--files /nowhere/key.pem" in str(told.value)


def test_every_file_of_the_settings_is_looked_for(elsewhere: Path) -> None:
    given: SecuritySettings = {
        "security_protocol": "SASL_SSL",
        "ssl_truststore_location": "/nowhere/ca.pem",
        "ssl_keystore_location": "",
        "sasl_oauthbearer_token_endpoint_url": "file:///nowhere/token",
    }
    assert located(given) == {
        "security_protocol": "SASL_SSL",
        "ssl_truststore_location": "ca.pem",
        "ssl_keystore_location": "",
        "sasl_oauthbearer_token_endpoint_url": (elsewhere / "token").as_uri(),
    }
    far: SecuritySettings = {"sasl_oauthbearer_token_endpoint_url": "https://tokens.example/t"}
    assert located(far) == far
