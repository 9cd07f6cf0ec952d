"""``--command-config``: the files of Kafka's own tools, and what is misspelled in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tallymark.client.core.security.properties import PROPERTIES
from tallymark.errors import UserError
from tallymark.shell.command_config import read_command_config

JAVAS_ALONE = [
    "ssl.protocol",
    "ssl.truststore.password",
    "ssl.keystore.key",
    "ssl.enabled.protocols",
    "ssl.cipher.suites",
    "sasl.kerberos.service.name",
    "sasl.login.class",
    "security.providers",
    "ssl.crl.location",
    "group.id",
    "ssl.key.location",
    "ssl.certificate.location",
    "bootstrap.servers",
    "client.id",
    "acks",
    "retries",
]


def read(folder: Path, text: str) -> dict[str, object]:
    path = folder / "client.properties"
    path.write_text(text)
    return dict(read_command_config(str(path)))


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("security.protocl=SSL", "security.protocol"),
        ("sasl.mechansim=PLAIN", "sasl.mechanism"),
        ("sasl.pasword=x", "sasl.password"),
        ("ssl.trustore.location=/ca.pem", "ssl.truststore.location"),
        ("sasl.jaas.confg=x", "sasl.jaas.config"),
    ],
)
def test_a_misspelled_name_is_an_error(tmp_path: Path, written: str, meant: str) -> None:
    """``security.protocl=SSL`` was passed over with what commands do not use, and they spoke plain
    text to whoever listened."""
    with pytest.raises(UserError, match=f"did you mean {meant}"):
        read(tmp_path, written)


def test_what_only_java_knows_is_passed_over(tmp_path: Path) -> None:
    lines = [f"{name}=x" for name in JAVAS_ALONE]
    assert read(tmp_path, "\n".join([*lines, "security.protocol=PLAINTEXT"])) == {
        "security_protocol": "PLAINTEXT"
    }
    assert not set(JAVAS_ALONE) & set(PROPERTIES)
