"""Security settings by the names of Kafka's ``client.properties``, to and from ours. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final, cast

from tallymark.client.core.security.security import NAMES, SecuritySettings
from tallymark.errors import UserError
from tallymark.net.sasl.mechanisms import OAUTHBEARER

_OTHER_NAMES: Final = {
    # librdkafka's names, for files that are shared with its tools (kcat -F)
    "sasl.mechanisms": "sasl.mechanism",
    "ssl.ca.location": "ssl.truststore.location",
    "sasl.oauthbearer.client.id": "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.secret": "sasl.oauthbearer.client.credentials.client.secret",
}
_JAAS_OPTIONS: Final = {
    # Java's names of before KIP-1139
    "clientId": "sasl_oauthbearer_client_credentials_client_id",
    "clientSecret": "sasl_oauthbearer_client_credentials_client_secret",
    "scope": "sasl_oauthbearer_scope",
}
_JAAS: Final = "sasl.jaas.config"
_STORE_TYPES: Final = ("ssl.truststore.type", "ssl.keystore.type")
_ALIKE: Final = 0.92
_OPTION: Final = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^\s;"']+))""")

PROPERTIES: Final = (
    *sorted(name.replace("_", ".") for name in NAMES if not name.endswith("_provider")),
    _JAAS,
    *_STORE_TYPES,
    *_OTHER_NAMES,
)
"""Every property name that is read here."""


def security_of_properties(properties: Mapping[str, str], where: str) -> SecuritySettings:
    """The security settings among ``properties``; other properties are ignored. User and password
    may be in ``sasl.jaas.config``, as in Java. UserError, beginning with ``where``: a store that is
    no PEM file, a log-in that cannot be read, a misspelled name."""
    for name in properties:
        _refuse_misspelled(name, where)
    given = {_OTHER_NAMES.get(name, name): value for name, value in properties.items()}
    for name in _STORE_TYPES:
        if given.get(name, "PEM").upper() != "PEM":
            raise UserError(
                f"{where}: {name}={given[name]} is not read",
                "give a PEM file: keytool and openssl pkcs12 write them",
            )
    settings: dict[str, Any] = {
        name.replace(".", "_"): value
        for name, value in given.items()
        if name.replace(".", "_") in NAMES and not name.endswith(".provider")
    }
    if _JAAS in given:
        by_token = given.get("sasl.mechanism") == OAUTHBEARER
        settings |= _client(given[_JAAS]) if by_token else _log_in(given[_JAAS], where)
    return cast("SecuritySettings", settings)


def _refuse_misspelled(name: str, where: str) -> None:
    # If it were ignored, "security.protocl=SSL" would mean plain text. Names that only Java has
    # (ssl.protocol, sasl.kerberos...) differ enough from ours.
    if name not in PROPERTIES and (near := get_close_matches(name, PROPERTIES, 1, _ALIKE)):
        raise UserError(f"{where}: there is no {name}", f"did you mean {near[0]}?")


def _log_in(jaas: str, where: str) -> dict[str, str]:
    """User and password of ``Module required username="..." password="...";``."""
    options = _options(jaas)
    if "username" not in options or "password" not in options:
        raise UserError(f"{where}: {_JAAS} has no username and password", "write both")
    return {"sasl_username": options["username"], "sasl_password": options["password"]}


def _client(jaas: str) -> dict[str, str]:
    """The settings in ``OAuthBearerLoginModule required clientId="..." clientSecret="..."
    scope="...";``, those that are there."""
    options = _options(jaas)
    return {ours: options[java] for java, ours in _JAAS_OPTIONS.items() if java in options}


def _options(jaas: str) -> dict[str, str]:
    return {
        name: re.sub(r"\\(.)", r"\1", quoted) or single or bare
        for name, quoted, single, bare in _OPTION.findall(jaas)
    }
