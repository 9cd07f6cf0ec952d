"""Client settings for a cluster of the settings file: its addresses and its security::

with Producer(**connection_settings(deployment.cluster("dc1"))) as producer: ...
"""

from __future__ import annotations

import os
from pathlib import Path

from tallymark.client.core.security.security import SecuritySettings
from tallymark.deployment import Cluster, ClusterSecurity
from tallymark.errors import UserError
from tallymark.net.sasl.mechanisms import OAUTHBEARER


class ConnectionSettings(SecuritySettings, total=False):
    """Keyword arguments of every client class: the cluster's addresses and its security."""

    bootstrap_servers: str


def connection_settings(cluster: Cluster) -> ConnectionSettings:
    """The keyword arguments for a client of ``cluster``. UserError when a password cannot be
    read."""
    return {"bootstrap_servers": cluster.bootstrap_servers, **security_settings(cluster.security)}


def security_settings(security: ClusterSecurity) -> SecuritySettings:
    """The security of a cluster, with the passwords read from their files or the environment.
    UserError names what is missing."""
    found: SecuritySettings = {"security_protocol": security.security_protocol}
    if security.security_protocol.endswith("SSL"):
        found["ssl_truststore_location"] = security.ssl_truststore_location
        found["ssl_keystore_location"] = security.ssl_keystore_location
        found["ssl_endpoint_identification_algorithm"] = (
            security.ssl_endpoint_identification_algorithm
        )
        if security.ssl_key_password_file:
            found["ssl_key_password"] = secret_in(security.ssl_key_password_file)
    if security.security_protocol.startswith("SASL"):
        found["sasl_mechanism"] = security.sasl_mechanism
    if security.sasl_mechanism == OAUTHBEARER:
        found |= _token_settings(security)
    elif security.security_protocol.startswith("SASL"):
        found["sasl_username"] = security.sasl_username
        found["sasl_password"] = _sasl_password(security)
    return found


def _token_settings(security: ClusterSecurity) -> SecuritySettings:
    found: SecuritySettings = {
        "sasl_oauthbearer_token_endpoint_url": security.sasl_oauthbearer_token_endpoint_url,
        "sasl_oauthbearer_client_credentials_client_id": (
            security.sasl_oauthbearer_client_credentials_client_id
        ),
        "sasl_oauthbearer_scope": security.sasl_oauthbearer_scope,
    }
    if path := security.sasl_oauthbearer_client_credentials_client_secret_file:
        found["sasl_oauthbearer_client_credentials_client_secret"] = secret_in(path)
    return found


def secret_in(path: str | os.PathLike[str]) -> str:
    """The first line of a file. UserError when it cannot be read or is empty."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise UserError(f"cannot read the password in {path}: {why}", "mend the path") from error
    secret = text.split("\n", 1)[0].rstrip("\r")
    if not secret:
        raise UserError(f"the first line of {path} is empty", "it is to be the password")
    return secret


def _sasl_password(security: ClusterSecurity) -> str:
    if security.sasl_password_file:
        return secret_in(security.sasl_password_file)
    name = security.sasl_password_env
    if not name:
        raise UserError(
            f"the settings do not say where the password of {security.sasl_username!r} is",
            "set sasl_password_file or sasl_password_env in the cluster's security",
        )
    if not os.environ.get(name):
        raise UserError(
            f"the environment variable {name} is not set",
            f"it is to be the password of {security.sasl_username!r}",
        )
    return os.environ[name]
