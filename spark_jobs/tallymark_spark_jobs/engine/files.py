"""Files that settings name, on whatever machine a task runs.

A path of the driver means nothing to an executor. Either the file is mounted under the same name on
every machine, or ``--files`` has brought a copy: then it is in the folder where the executor runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar, cast

from tallymark.errors import UserError

if TYPE_CHECKING:
    from tallymark.client.core.security.security import SecuritySettings

_Settings = TypeVar("_Settings", bound="SecuritySettings")
_PATHS: Final = ("ssl_truststore_location", "ssl_keystore_location")
_TOKEN: Final = "sasl_oauthbearer_token_endpoint_url"
_SCHEME: Final = "file://"


def located(security: _Settings) -> _Settings:
    """The same settings, with each file where it is on this machine. UserError names one that is
    not here."""
    found = dict(cast("Mapping[str, object]", security))
    for name in _PATHS:
        if path := found.get(name):
            found[name] = here(str(path))
    address = str(found.get(_TOKEN, ""))
    if address.startswith(_SCHEME):
        found[_TOKEN] = Path(here(address.removeprefix(_SCHEME))).absolute().as_uri()
    return cast("_Settings", found)


def here(path: str) -> str:
    """``path`` if it is there, else the copy of that name that ``--files`` has brought. UserError:
    neither is."""
    name = Path(path).name
    for candidate in (Path(path), Path(name), _brought() / name):
        if candidate.is_file():
            return str(candidate)
    raise UserError(
        f"the file {path} of the settings is not on this machine",
        f"mount it there under this name, or give spark-submit --files {path}",
    )


def _brought() -> Path:
    """Where Spark keeps the copies of this task, or of this driver; without Spark, here."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark import SparkFiles

    try:
        return Path(SparkFiles.getRootDirectory())
    except (AttributeError, TypeError, AssertionError, Py4JError):  # no session in this process
        return Path()
