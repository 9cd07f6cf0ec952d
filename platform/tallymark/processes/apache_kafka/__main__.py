"""``python -m tallymark.processes.apache_kafka [VERSION]`` fetches the jars, and says where they
are."""

from __future__ import annotations

import sys

from tallymark.processes.apache_kafka.jars import OLDER, VERSION, NotAvailableError, jars

if __name__ == "__main__":
    version = sys.argv[1] if len(sys.argv) > 1 else VERSION
    if version not in (VERSION, OLDER):
        sys.exit(f"there are checksums of Apache Kafka {VERSION} and {OLDER} only")
    try:
        print(jars(version=version))  # noqa: T201  (what the command is for)
    except NotAvailableError as missing:
        sys.exit(str(missing))
