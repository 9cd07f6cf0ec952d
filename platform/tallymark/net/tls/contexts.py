"""TLS contexts from PEM files, for both sides, and the name in a client's certificate.

A keystore is one PEM file with the private key and the certificate chain (Kafka's
``ssl.keystore.type=PEM``, KIP-651); a truststore is one with the certificates of authorities.
Versions below TLS 1.2 are refused.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal

from tallymark.errors import UserError

ClientAuth = Literal["none", "requested", "required"]
"""Whether a listener asks clients for a certificate of their own."""

_VERIFY: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}

# RFC 2253, section 2.3: the short names; OpenSSL gives the long ones.
_SHORT: Final = {
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}


def server_context(
    keystore: Path,
    key_password: str = "",
    truststore: Path | None = None,
    client_auth: ClientAuth = "none",
) -> ssl.SSLContext:
    """The TLS context of a listener. UserError names the file that is wrong."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A renegotiation costs the server a signature, the client nothing (OpenSSL 3 has this default).
    context.options |= ssl.OP_NO_RENEGOTIATION
    _load_keystore(context, keystore, key_password)
    if truststore is not None:
        _load_truststore(context, truststore)
    elif client_auth != "none":
        raise UserError(
            f"ssl.client.auth={client_auth} needs ssl.truststore.location",
            "name the PEM file with the authorities of the clients' certificates",
        )
    context.verify_mode = _VERIFY[client_auth]
    return context


def client_context(
    truststore: Path | None = None,
    keystore: Path | None = None,
    key_password: str = "",
    *,
    check_hostname: bool = True,
) -> ssl.SSLContext:
    """The TLS context of a client: it trusts ``truststore`` (else the system's authorities), and
    sends the certificate of ``keystore`` to brokers that ask for one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = check_hostname
    if truststore is not None:
        _load_truststore(context, truststore)
    else:
        context.load_default_certs()
    if keystore is not None:
        _load_keystore(context, keystore, key_password)
    return context


def peer_name(tls: Any) -> str | None:
    """The name in the verified certificate of the other side of an ``ssl.SSLObject``; None when the
    other side sent none."""
    certificate = tls.getpeercert() if tls is not None else None
    return distinguished_name(certificate.get("subject", ())) if certificate else None


def distinguished_name(subject: Any) -> str:
    """A subject of :meth:`ssl.SSLSocket.getpeercert` as text by RFC 2253: the last part first,
    ``CN=alice,OU=metering,O=Example``. Apache Kafka names principals in this form."""
    parts = [
        "+".join(f"{_SHORT.get(kind, kind)}={_escaped(value)}" for kind, value in several)
        for several in reversed(subject)
    ]
    return ",".join(parts)


def _escaped(value: str) -> str:
    text = "".join("\\" + c if c in ',+"\\<>;' else c for c in value)
    if text.startswith(("#", " ")):
        text = "\\" + text
    if value.endswith(" ") and len(value) > 1:
        text = text[:-1] + "\\ "
    return text


def _load_keystore(context: ssl.SSLContext, path: Path, password: str) -> None:
    def load() -> None:
        # A callback, so that OpenSSL does not ask for the password of a key at the terminal.
        context.load_cert_chain(path, password=lambda: password)

    _load(path, load, "it needs the private key and its certificate chain, and ssl.key.password")


def _load_truststore(context: ssl.SSLContext, path: Path) -> None:
    _load(path, lambda: context.load_verify_locations(path), "it needs certificates")


def _load(path: Path, load: Callable[[], None], needs: str) -> None:
    try:
        load()
    except ssl.SSLError as error:
        reason = error.reason or str(error)
        raise UserError(f"{path} is no PEM file of the right kind: {reason}", needs) from error
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}", "mend the path") from error
