"""How clients log in, as settings: passwords go to files that only their owner can read. Pure but
for :func:`write_secrets`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tallymark.client.core.security.security import SecuritySettings
from tallymark.deployment import ClusterSecurity
from tallymark.errors import UserError
from tallymark.private_files import write_private

_SECRETS: Final = (
    *("sasl_password", "ssl_key_password"),
    "sasl_oauthbearer_client_credentials_client_secret",
)


class LogIn(NamedTuple):
    """The options that were ``given``, the settings of a cluster made of them, and the text of each
    file with a secret."""

    given: SecuritySettings
    security: ClusterSecurity
    secrets: Mapping[Path, str]


def log_in(given: SecuritySettings, cluster: str, folder: Path) -> LogIn:
    """``given``, taken apart; secrets are to be kept below ``folder``. UserError: a value that
    settings cannot have."""
    values: dict[str, str] = {}
    secrets: dict[Path, str] = {}
    for name, value in given.items():
        if value is None or value == "":
            continue
        text = str(value)
        if name in _SECRETS:
            path = (folder / f"{cluster}.{name.replace('_', '-')}").absolute()
            if "\n" in text or "\r" in text:
                raise UserError(f"{name} of {cluster} has a line break", "no file could keep it")
            values[f"{name}_file"], secrets[path] = str(path), text
        elif name.endswith("_location"):
            values[name] = str(Path(text).absolute())
        else:
            values[name] = text
    if given.get("ssl_endpoint_identification_algorithm") == "":
        values["ssl_endpoint_identification_algorithm"] = ""
    try:
        return LogIn(given, ClusterSecurity.model_validate(values), secrets)
    except ValueError as error:
        wrong = ", ".join(sorted(values.keys() - {f"{each}_file" for each in _SECRETS}))
        raise UserError(
            f"one of {wrong} for {cluster} cannot be: {str(error).splitlines()[2].strip()}",
            "mend the file of --command-config",
        ) from error


def write_secrets(secrets: Mapping[Path, str]) -> None:
    """Write each into its file, which only its owner may read."""
    for path, text in secrets.items():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_private(path, text + "\n")
