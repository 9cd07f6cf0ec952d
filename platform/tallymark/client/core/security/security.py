"""How a client authenticates itself and the brokers: TLS, mutual TLS, SASL.

Every client class takes the same keyword arguments, Kafka's settings with underscores
(:class:`SecuritySettings`), and makes one :class:`ClientSecurity` of them::

    Producer(bootstrap_servers="broker-7.example:9094", security_protocol="SASL_SSL",
             ssl_truststore_location="ca.pem", sasl_mechanism="SCRAM-SHA-512",
             sasl_username="ingest", sasl_password=...)

Files are PEM (KIP-651). No error text and no repr contains a password.
"""

from __future__ import annotations

import inspect
import os
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypedDict

from tallymark.client.core.setting_types import NAMES_OF_OTHERS, unknown_keyword
from tallymark.errors import UserError
from tallymark.net.sasl.mechanisms import ALL_MECHANISMS, OAUTHBEARER, SaslCredentials
from tallymark.net.sasl.oauth_urls import check_oauth_url, file_of
from tallymark.net.tls.contexts import client_context

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class SecuritySettings(TypedDict, total=False):
    """The keyword arguments of every client class. None and "" mean: not given.

    * ``security_protocol``: PLAINTEXT (default), SSL (TLS), SASL_PLAINTEXT (a log-in in the clear),
      SASL_SSL (a log-in within TLS).
    * ``ssl_truststore_location``: PEM file of the authorities that are trusted; default: the
      system's.
    * ``ssl_keystore_location``: PEM file with our private key and certificate chain, for brokers
      that ask for one (mutual TLS); ``ssl_key_password`` if the key is encrypted.
    * ``ssl_endpoint_identification_algorithm``: "https" (default): the certificate must be for the
      host name connected to; "": it may be for any name.
    * ``sasl_mechanism``: SCRAM-SHA-256, SCRAM-SHA-512 or PLAIN, with ``sasl_username`` and
      ``sasl_password``; or OAUTHBEARER with one of the following.
    * ``sasl_oauthbearer_token_endpoint_url``: ``https://...``, which gives a token for
      ``sasl_oauthbearer_client_credentials_client_id``, ``..._client_secret`` and
      ``sasl_oauthbearer_scope``; or ``file:///...``, a file with a token.
    * ``sasl_oauthbearer_token_provider``: a function that returns a token. It is called in a thread
      of its own, for each log-in.
    """

    security_protocol: str | None
    ssl_truststore_location: str | os.PathLike[str] | None
    ssl_keystore_location: str | os.PathLike[str] | None
    ssl_key_password: str | None
    ssl_endpoint_identification_algorithm: str | None
    sasl_mechanism: str | None
    sasl_username: str | None
    sasl_password: str | None
    sasl_oauthbearer_token_endpoint_url: str | None
    sasl_oauthbearer_client_credentials_client_id: str | None
    sasl_oauthbearer_client_credentials_client_secret: str | None
    sasl_oauthbearer_scope: str | None
    sasl_oauthbearer_token_provider: Callable[[], str] | None


NAMES: Final = frozenset(SecuritySettings.__annotations__)
_BY_PASSWORD: Final = ("sasl_username", "sasl_password")


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """The security of every connection of a client. ``tls`` None: plain text; ``sasl`` None: no
    log-in."""

    tls: ssl.SSLContext | None = field(default=None, repr=False)
    sasl: SaslCredentials | None = None

    @property
    def protocol(self) -> SecurityProtocol:
        """The security protocol by its name in the listeners of brokers."""
        if self.sasl is None:
            return "PLAINTEXT" if self.tls is None else "SSL"
        return "SASL_PLAINTEXT" if self.tls is None else "SASL_SSL"


PLAINTEXT: Final = ClientSecurity()


def client_security(given: Mapping[str, Any], of: type) -> ClientSecurity:
    """Check the security settings given to the class ``of``, read the files, make the TLS context.

    Raises TypeError for a name that is not in :class:`SecuritySettings`; its text suggests the most
    similar name of these and of the class's own keywords. Raises UserError for invalid values,
    settings that the protocol does not use, and files that cannot be read.
    """
    owner = f"{of.__name__}()"
    for name in given:
        if name not in NAMES:
            own = inspect.signature(of).parameters
            others = NAMES_OF_OTHERS if owner == "Producer()" else None
            raise unknown_keyword(name, (*own, *sorted(NAMES)), owner, others)
    settings = {name: value for name, value in given.items() if value is not None}
    protocol = settings.pop("security_protocol", None) or "PLAINTEXT"
    if protocol not in PROTOCOLS:
        raise UserError(
            f"{owner}: security_protocol={protocol!r} is none",
            f"give one of {', '.join(PROTOCOLS)}",
        )
    _refuse_unused(settings, protocol, owner)
    tls = _tls(settings, owner) if protocol.endswith("SSL") else None
    sasl = _sasl(settings, owner) if protocol.startswith("SASL") else None
    return ClientSecurity(tls, sasl)


def _refuse_unused(settings: Mapping[str, Any], protocol: str, owner: str) -> None:
    # A user that sets a truststore without TLS believes that the connection is secured.
    for prefix, used in (("ssl_", protocol.endswith("SSL")), ("sasl_", "SASL" in protocol)):
        unused = [name for name in settings if name.startswith(prefix) and settings[name]]
        if unused and not used:
            fitting = "SSL or SASL_SSL" if prefix == "ssl_" else "SASL_PLAINTEXT or SASL_SSL"
            raise UserError(
                f"{owner}: {unused[0]} is given, but security_protocol={protocol} does not use it",
                f"set security_protocol={fitting}",
            )


def _tls(settings: Mapping[str, Any], owner: str) -> ssl.SSLContext:
    algorithm = settings.get("ssl_endpoint_identification_algorithm", "https").lower()
    if algorithm not in ("https", ""):
        raise UserError(
            f"{owner}: ssl_endpoint_identification_algorithm={algorithm!r} is none",
            'give "https", or "" for any name',
        )
    truststore, keystore = (
        settings.get(f"ssl_{store}_location") for store in ("truststore", "keystore")
    )
    return client_context(
        Path(truststore) if truststore else None,
        Path(keystore) if keystore else None,
        settings.get("ssl_key_password", ""),
        check_hostname=bool(algorithm),
    )


def _sasl(settings: Mapping[str, Any], owner: str) -> SaslCredentials:
    mechanism = settings.get("sasl_mechanism", "")
    if mechanism not in ALL_MECHANISMS:
        raise UserError(
            f"{owner}: sasl_mechanism={mechanism!r} is none that can be used",
            f"give one of {', '.join(ALL_MECHANISMS)}",
        )
    for_tokens = mechanism == OAUTHBEARER
    unused = [
        name
        for name, value in settings.items()
        if value and (name in _BY_PASSWORD if for_tokens else name.startswith("sasl_oauthbearer_"))
    ]
    if unused:
        raise UserError(
            f"{owner}: {unused[0]} is given, but sasl_mechanism={mechanism} does not use it",
            "leave it out, or mend sasl_mechanism",
        )
    if for_tokens:
        return SaslCredentials("", "", mechanism, _tokens(settings, owner))
    username, password = settings.get("sasl_username", ""), settings.get("sasl_password", "")
    if not username or not password:
        missing = "sasl_password" if username else "sasl_username"
        raise UserError(f"{owner}: {missing} is missing", f"{mechanism} logs in with both")
    return SaslCredentials(username, password, mechanism)


def _tokens(settings: Mapping[str, Any], owner: str) -> Callable[[], Awaitable[str]]:
    from tallymark.client.core.security.oauth_tokens import TokenEndpoint, from_thread, in_file

    url = settings.get("sasl_oauthbearer_token_endpoint_url", "")
    provider = settings.get("sasl_oauthbearer_token_provider")
    if bool(url) == (provider is not None):
        raise UserError(
            f"{owner}: OAUTHBEARER takes tokens from one place, "
            f"{'two are' if url else 'none is'} given",
            "give sasl_oauthbearer_token_endpoint_url or sasl_oauthbearer_token_provider",
        )
    if provider is not None:
        if not callable(provider):
            raise UserError(
                f"{owner}: sasl_oauthbearer_token_provider cannot be called",
                "give a function that returns a token",
            )
        return from_thread(provider)
    try:
        path = file_of(check_oauth_url(url))
    except ValueError as error:
        raise UserError(
            f"{owner}: sasl_oauthbearer_token_endpoint_url={url!r} cannot be used", str(error)
        ) from None
    if path is not None:
        return from_thread(in_file(path))
    client = [
        settings.get(f"sasl_oauthbearer_client_credentials_client_{name}", "")
        for name in ("id", "secret")
    ]
    if not all(client):
        raise UserError(
            f"{owner}: {url} gives tokens for a client id and its secret, one is missing",
            "give sasl_oauthbearer_client_credentials_client_id and ..._client_secret",
        )
    scope = settings.get("sasl_oauthbearer_scope", "")
    return from_thread(TokenEndpoint(url, client[0], client[1], scope))
