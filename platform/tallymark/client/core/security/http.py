"""The ``[security]`` table of a settings file: for the HTTP servers, and for clients of the
registry."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from socket import gethostname
from typing import TypedDict

from tallymark.client.core.security.deployment import secret_in
from tallymark.deployment import Deployment, HttpSecurity
from tallymark.errors import UserError
from tallymark.net.tls.contexts import server_context
from tallymark.net.web.access import LogIn, WebAccess, check_exposed
from tallymark.net.web.guard import OwnNames
from tallymark.net.web.login import BasicLogin
from tallymark.net.web.users import WebUsers


def http_access(
    security: HttpSecurity,
    what: str,
    host: str,
    allow_plaintext: bool,
    setting: str,
    known_as: Iterable[str] = (),
    login: LogIn | None = None,
) -> WebAccess:
    """The security of the server ``what`` on ``host``; ``known_as`` are host names that it accepts
    in addition to its own, ``login`` is how clients log in, if not as ``security`` says.

    UserError where a file cannot be read, or where other machines could reach it without TLS or a
    log-in and ``setting`` does not allow that."""
    tls = None
    if security.ssl_keystore_location:
        password = security.ssl_key_password_file
        tls = server_context(
            Path(security.ssl_keystore_location), secret_in(password) if password else ""
        )
    if login is None and security.users_file:
        login = BasicLogin(WebUsers(Path(security.users_file)))
    names = OwnNames((host, gethostname(), *known_as, *security.allowed_hosts))
    access = WebAccess(names, tls, login)
    check_exposed(what, host, access, allow_plaintext, setting)
    return access


class RegistrySettings(TypedDict, total=False):
    """Keyword arguments of :class:`~tallymark.serialization.RegistryClient`."""

    url: str
    ssl_truststore_location: str
    username: str
    password: str
    token: str


def registry_settings(deployment: Deployment) -> RegistrySettings:
    """The keyword arguments for a client of the deployment's registry. UserError when the password
    or token cannot be read."""
    security = deployment.security
    found: RegistrySettings = {"url": deployment.registry.url}
    if security.ssl_truststore_location:
        found["ssl_truststore_location"] = security.ssl_truststore_location
    if security.username:
        found["username"] = security.username
        found["password"] = _password(security)
    elif security.token_file:
        found["token"] = secret_in(security.token_file)
    return found


def _password(security: HttpSecurity) -> str:
    if security.password_file:
        return secret_in(security.password_file)
    found = os.environ.get(security.password_env) if security.password_env else None
    if not found:
        raise UserError(
            f"there is no password of {security.username!r} for the registry",
            "set password_file in [security], or password_env and that variable",
        )
    return found
