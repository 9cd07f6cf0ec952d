"""Which registry a command talks to, as whom, and what its errors are.

Secrets are never words of the command line, which every user of the machine can read: they are in
environment variables or in files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from tallymark.client.core.security.deployment import secret_in
from tallymark.client.core.security.http import registry_settings
from tallymark.deployment import load
from tallymark.errors import ConnectError, TimedOutError, UserError
from tallymark.serialization import RegistryError
from tallymark.serialization.http_retry import Http
from tallymark_schema_registry.cli.reasons import CheckingClient
from tallymark_schema_registry.transfer.lines import UnreadableError

F = TypeVar("F", bound=Callable[..., Any])

URL: Final = "TALLYMARK_REGISTRY"
OWN: Final = "TALLYMARK_REGISTRY"
SOURCE: Final = "TALLYMARK_SOURCE"
"""Before ``_USER``, ``_PASSWORD`` and ``_TOKEN``: variables of the registry to read from."""
REFUSED: Final = 1
UNREACHABLE: Final = 3
_TIMEOUT_S: Final = 30.0
_ATTEMPTS: Final = 4
_NOT_LET_IN: Final = frozenset((401, 403, 408, 429))
_NOT_FOUND: Final = frozenset((40401, 40402, 40403))
"""There is no such subject, version or id."""


@dataclass(frozen=True, slots=True)
class Access:
    """A registry, and the log-in there; "" means: not given. ``ca``: PEM file of the authorities
    that are trusted."""

    url: str
    ca: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)


def registry_options(function: F) -> F:
    """``--registry``, ``--settings``, and the log-in."""
    return _options("", f"[{URL}] Its address; several servers with commas between.", function)


def source_options(function: F) -> F:
    """``--from-registry``, and the log-in there."""
    return _options("from-", "The address of the registry to read from.", function)


def _options(prefix: str, what: str, function: F) -> F:
    variables = SOURCE if prefix else OWN
    path = click.Path(dir_okay=False)
    options = [
        click.option(f"--{prefix}registry", metavar="URL", help=what),
        click.option(
            f"--{prefix}user",
            metavar="NAME",
            help=f"[{variables}_USER] With {variables}_PASSWORD or --{prefix}password-file.",
        ),
        click.option(f"--{prefix}password-file", type=path, help="Its first line is the password."),
        click.option(
            f"--{prefix}token-file",
            type=path,
            help=f"Its first line is a bearer token [default: {variables}_TOKEN].",
        ),
        click.option(f"--{prefix}ca", type=path, help="PEM file of the authorities to trust."),
    ]
    if not prefix:
        help_ = "The settings file, whose registry is meant where no --registry is given."
        options.append(click.option("--settings", type=click.Path(), help=help_))
    for option in reversed(options):
        function = option(function)
    return function


def take_access(options: dict[str, Any]) -> Access:
    """What :func:`registry_options` were given, taken out of ``options``. UserError where a file
    cannot be read."""
    url, settings = options.pop("registry") or os.environ.get(URL), options.pop("settings")
    return _with_login(Access(url) if url else _of_settings(settings), options, "", OWN)


def _of_settings(path: str | None) -> Access:
    found = registry_settings(load(path))
    return Access(
        found.get("url", ""),
        found.get("ssl_truststore_location", ""),
        found.get("username", ""),
        found.get("password", ""),
        found.get("token", ""),
    )


def take_source(options: dict[str, Any]) -> Access | None:
    """What :func:`source_options` were given; None where no registry is named."""
    url = options.pop("from_registry")
    found = _with_login(Access(url or ""), options, "from_", SOURCE)
    return found if url else None


def _with_login(found: Access, options: dict[str, Any], prefix: str, variables: str) -> Access:
    """Options go before the environment, a user before a token, all of them before the settings."""
    user, password_file, token_file, ca = (
        options.pop(f"{prefix}{name}") for name in ("user", "password_file", "token_file", "ca")
    )
    if ca:
        found = replace(found, ca=ca)
    if user and token_file:
        raise UserError("a user and a token are two ways to log in", "give one of them")
    token = secret_in(token_file) if token_file else ""
    if not user and not token:
        user = os.environ.get(f"{variables}_USER")
        token = "" if user else os.environ.get(f"{variables}_TOKEN", "")
    if user:
        password = _password(user, password_file, f"{variables}_PASSWORD")
        return replace(found, username=user, password=password, token="")
    return replace(found, username="", password="", token=token) if token else found


def _password(user: str, file: str | None, variable: str) -> str:
    if file:
        return secret_in(file)
    password = os.environ.get(variable)
    if password is None:
        raise UserError(f"there is no password of {user!r}", f"set {variable}, or name a file")
    return password


def client(access: Access) -> CheckingClient:
    """The registry, for single requests."""
    return CheckingClient(
        access.url,
        timeout=_TIMEOUT_S,
        attempts=_ATTEMPTS,
        ssl_truststore_location=access.ca,
        username=access.username,
        password=access.password,
        token=access.token,
    )


def requests(access: Access) -> Http:
    """The registry, for transfers."""
    return Http(
        access.url,
        _TIMEOUT_S,
        _ATTEMPTS,
        truststore=Path(access.ca) if access.ca else None,
        login=(access.username, access.password) if access.username else None,
        token=access.token,
    )


@contextmanager
def exit_codes() -> Iterator[None]:
    """Errors of the registry as UserErrors with their exit codes: 3 where it cannot be reached,
    fails, or does not let us in, and 1 where it refuses what was asked for."""
    try:
        yield
    except (ConnectError, TimedOutError) as error:
        raise UserError(str(error), exit_code=UNREACHABLE) from error
    except UnreadableError as error:
        raise UserError(
            f"the registry cannot be understood: {error}", "see its address", UNREACHABLE
        ) from error
    except RegistryError as error:
        failed = error.status >= 500 or error.status in _NOT_LET_IN
        advice = "see 'tallymark schema list'" if error.code in _NOT_FOUND else ""
        raise UserError(str(error), advice, UNREACHABLE if failed else REFUSED) from error
