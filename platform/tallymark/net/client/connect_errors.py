"""Errors for a connection that could not be opened; their texts say what to check. Pure.

A connection is opened in stages: resolve, connect, tls, api (ApiVersions), sasl. When the two sides
disagree about security, the client rarely gets a proper response: a TLS listener that receives
plain text sends a TLS alert or closes; a plain listener reads a TLS handshake as a request of
369 MB and closes. From what the client sees, these functions derive the most likely cause.
"""

from __future__ import annotations

import ssl
from typing import Final

from tallymark.errors import (
    CODES,
    AuthenticationError,
    ConnectError,
    KafkaError,
    TallymarkError,
)

_TLS_ALERT: Final = b"\x15\x03"
"""RFC 8446, section 5.1: content type 21 (alert), then the legacy version 3.x."""
_WRONG_NAME: Final = frozenset({62, 63, 64})
"""X509_V_ERR_HOSTNAME_MISMATCH, _EMAIL_, _IP_ADDRESS_."""
_OUT_OF_DATE: Final = frozenset({9, 10})
"""X509_V_ERR_CERT_NOT_YET_VALID, X509_V_ERR_CERT_HAS_EXPIRED."""
_PLAIN_PEER: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")
_LOG_IN_REFUSED: Final = frozenset(
    CODES[name]
    for name in ("SASL_AUTHENTICATION_FAILED", "UNSUPPORTED_SASL_MECHANISM", "ILLEGAL_SASL_STATE")
)

_PLAIN_LISTENER: Final = (
    "is its listener plain text? (security_protocol=SSL or SASL_SSL speaks TLS)"
)
_NO_CERTIFICATE: Final = (
    "does it want a client certificate, of an authority that it trusts (ssl_keystore_location)?"
)
NO_LOG_IN: Final = (
    "it answered nothing but ApiVersions: does its listener expect a log-in "
    "(security_protocol=SASL_PLAINTEXT or SASL_SSL)?"
)
"""For a connection without log-in that ends before its first response."""


def unopened(address: str, stage: str, error: OSError) -> ConnectError:
    """Name resolution, TCP or the TLS handshake failed."""
    if isinstance(error, TimeoutError):
        hint = (
            "is its listener one with TLS?"
            if stage == "tls"
            else "is the address right, is a firewall between?"
        )
        return ConnectError(address, stage, f"no answer in time; {hint}")
    if isinstance(error, ssl.SSLError):
        return _insecure(address, error)
    if stage == "tls":
        return _cut_handshake(address, error.strerror or str(error))
    refusal = ConnectError(address, stage, _why(stage, error))
    refusal.is_refused = isinstance(error, ConnectionRefusedError)
    return refusal


def unanswered(address: str, error: BaseException, *, tls: bool) -> ConnectError:
    """The connection is open, but ApiVersions was not answered."""
    cause = error.__cause__
    if isinstance(cause, ssl.SSLError):  # TLS 1.3 refuses a client only after its handshake
        return _insecure(address, cause)
    said = "no answer to ApiVersions in time" if isinstance(error, TimeoutError) else str(error)
    if tls and (isinstance(cause, OSError) or "closed the connection" in said):
        # Brokers that refuse a client after the handshake, and send no alert, also end so.
        return ConnectError(address, "tls", f"{said}; {_NO_CERTIFICATE}")
    hint = "is it a Kafka broker?" if tls else f"is it a Kafka broker, {_PLAIN_LISTENER}"
    return ConnectError(address, "api", f"{said}; {hint}")


def not_logged_in(address: str, error: TallymarkError | TimeoutError) -> ConnectError:
    """The SASL log-in failed."""
    if isinstance(error, TimeoutError):
        return ConnectError(address, "sasl", "no answer in time")
    if isinstance(error, ConnectError):  # no token
        return type(error)(error.address, error.stage, error.reason)
    if not isinstance(error, KafkaError):  # the broker could not prove that it knows the password
        return AuthenticationError(address, "sasl", str(error))
    if error.code not in _LOG_IN_REFUSED:
        return ConnectError(address, "sasl", str(error))
    if error.code == CODES["SASL_AUTHENTICATION_FAILED"]:
        hint = (
            "is the token one for this broker, and its key known there? (its log says more)"
            if "OAUTHBEARER" in error.context
            else "are name and password right?"
        )
        why = f"{error.context}; {hint}"
    elif error.code == CODES["UNSUPPORTED_SASL_MECHANISM"]:
        why = f"mechanism not enabled: {error.context}; set sasl_mechanism to one of those"
    else:
        why = f"{error}; is its listener one with SASL?"
    return AuthenticationError(address, "sasl", why)


def strange_bytes(data: bytes, error: TallymarkError) -> str:
    """A description of a broker's first bytes, where they are no response."""
    if data[:2] == _TLS_ALERT:
        return "the listener speaks TLS: set security_protocol=SSL or SASL_SSL"
    if data[:5] == b"HTTP/":
        return "this is a web server, not a Kafka broker"
    return str(error)


def _insecure(address: str, error: ssl.SSLError) -> ConnectError:
    if isinstance(error, ssl.SSLCertVerificationError):
        return AuthenticationError(address, "tls", _unverified(error))
    reason = error.reason or str(error)
    if any(part in reason for part in _PLAIN_PEER):
        return ConnectError(
            address,
            "tls",
            f"{reason}; is it a listener with TLS? (security_protocol=PLAINTEXT speaks without)",
        )
    if "CERTIFICATE_REQUIRED" in reason or "HANDSHAKE_FAILURE" in reason:
        return AuthenticationError(
            address,
            "tls",
            f"the broker wants a client certificate ({reason}); set ssl_keystore_location",
        )
    if "UNKNOWN_CA" in reason or "CERTIFICATE" in reason:
        return AuthenticationError(
            address,
            "tls",
            f"the broker does not accept our certificate ({reason}); "
            "is ssl_keystore_location of an authority in the broker's ssl.truststore.location?",
        )
    return ConnectError(address, "tls", f"{reason}; is it a listener with TLS?")


def _unverified(error: ssl.SSLCertVerificationError) -> str:
    said = error.verify_message.rstrip(".")
    if error.verify_code in _WRONG_NAME:
        return (
            f"{said}; connect by a name that the certificate has (brokers tell theirs by "
            'advertised.listeners), or set ssl_endpoint_identification_algorithm=""'
        )
    if error.verify_code in _OUT_OF_DATE:
        return f"{said}; renew the broker's certificate, or mend this machine's clock"
    return f"{said}; does the truststore (ssl_truststore_location) hold the broker's authority?"


def _cut_handshake(address: str, reason: str) -> ConnectError:
    return ConnectError(
        address,
        "tls",
        f"{reason or 'the broker closed the connection'} during the handshake; is it a listener "
        "with TLS? (security_protocol=PLAINTEXT or SASL_PLAINTEXT speaks without)",
    )


def _why(stage: str, error: OSError) -> str:
    reason = error.strerror or str(error)
    if stage == "resolve":
        return f"{reason}; is the host name right? (a broker tells its advertised.listeners)"
    if isinstance(error, ConnectionRefusedError):
        return "refused; is the broker running and is that its port?"
    return reason
