"""Which Java runs the servers, and how their ``.properties`` files are written."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from tallymark.errors import UserError

_JAVA_NEEDED: Final = "install Java 17 or newer (Debian: apt-get install openjdk-17-jre-headless)"


def find_java(needed_by: str = "ZooKeeper") -> str:
    """The ``java`` to run: ``$JAVA_HOME``'s, else the one on the PATH. UserError: install one."""
    home = os.environ.get("JAVA_HOME")
    if home and os.access(java := Path(home) / "bin" / "java", os.X_OK):
        return str(java)
    found = shutil.which("java")
    if found is None:
        raise UserError(f"{needed_by} needs Java, and there is none on the PATH", _JAVA_NEEDED)
    return found


def java_property(text: str) -> str:
    """As java.util.Properties reads a value: Latin-1, backslashes doubled, the rest as \\uXXXX."""
    units = text.encode("utf-16-be")
    codes = [units[i] << 8 | units[i + 1] for i in range(0, len(units), 2)]
    return "".join(
        "\\\\" if code == 0x5C else chr(code) if 0x20 <= code < 0x7F else f"\\u{code:04x}"
        for code in codes
    )
