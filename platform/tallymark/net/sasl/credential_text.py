"""A SCRAM credential as text: ``salt=...,stored_key=...,server_key=...,iterations=4096``, the bytes
in base64. It is Kafka's format, used in ZooKeeper and in ``security.json``."""

from __future__ import annotations

import base64
import binascii

from tallymark.net.sasl.scram import MAX_ITERATIONS, MIN_ITERATIONS, ScramCredential


def stored_text(credential: ScramCredential) -> str:
    """The text of a credential."""
    parts = {
        "salt": credential.salt,
        "stored_key": credential.stored_key,
        "server_key": credential.server_key,
    }
    text = ",".join(f"{name}={base64.b64encode(data).decode()}" for name, data in parts.items())
    return f"{text},iterations={credential.iterations}"


def parse_credential(mechanism: str, text: str) -> ScramCredential:
    """The credential in a text; ValueError where it is malformed."""
    parts: dict[str, str] = {}
    for part in text.split(","):
        name, _, value = part.strip().partition("=")
        parts[name] = value
    try:
        credential = ScramCredential(
            mechanism,
            base64.b64decode(parts["salt"], validate=True),
            int(parts["iterations"]),
            base64.b64decode(parts["stored_key"], validate=True),
            base64.b64decode(parts["server_key"], validate=True),
        )
    except (KeyError, binascii.Error) as error:
        raise ValueError(f"no credential of {mechanism}") from error
    if not credential.salt or not MIN_ITERATIONS <= credential.iterations <= MAX_ITERATIONS:
        raise ValueError(f"no credential of {mechanism} that is safe")
    return credential
