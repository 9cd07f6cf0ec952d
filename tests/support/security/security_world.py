"""Certificates, users and log-ins for tests of what is secured."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trustme

from tallymark.broker.security.file_store import FileSecurityStore
from tallymark.net.sasl.credential_text import stored_text
from tallymark.net.sasl.mechanisms import SCRAM_SHA_256, SCRAM_SHA_512
from tallymark.net.sasl.scram import ScramCredential
from tallymark.protocol.messages import SaslAuthenticateRequest, SaslHandshakeRequest
from tallymark.testing.wire import WireClient

PASSWORD: Final = "s3cret,=ü"


@dataclass(frozen=True)
class Certificates:
    """PEM files: the authority, the broker's and alice's keystores, and that of a stranger, who
    has the same name from another authority."""

    authority: Path
    broker: Path
    alice: Path
    stranger: Path


def make_certificates(folder: Path) -> Certificates:
    """New ones."""
    folder.mkdir(parents=True, exist_ok=True)
    found = Certificates(*(folder / f"{name}.pem" for name in ("ca", "broker", "alice", "eve")))
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(found.authority))
    broker = authority.issue_cert("127.0.0.1", "localhost")
    broker.private_key_and_cert_chain_pem.write_to_path(str(found.broker))
    for issuer, path in ((authority, found.alice), (trustme.CA(), found.stranger)):
        # Without an address Java takes the certificate for a broken one.
        client = issuer.issue_cert(
            "alice@example.com", common_name="alice", organization_name="Example"
        )
        client.private_key_and_cert_chain_pem.write_to_path(str(path))
    return found


def add_users(data: Path, *names: str) -> None:
    """Let them log in with :data:`PASSWORD` at a broker whose log dir is ``data``."""
    store = FileSecurityStore(data)
    for name in names:
        for mechanism in (SCRAM_SHA_256, SCRAM_SHA_512):
            credential = ScramCredential.of_password(mechanism, PASSWORD, name.encode() * 4)
            store.alter_user(name, {mechanism: stored_text(credential)})


def log_in(client: WireClient, user: str, password: str = PASSWORD) -> int:
    """Log in with PLAIN; the error code."""
    assert client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
    token = f"\0{user}\0{password}".encode()
    return client.ask(SaslAuthenticateRequest(auth_bytes=token), 2).error_code
