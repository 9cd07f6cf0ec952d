"""``python -m tallymark.processes.apache_kafka``: fetch the jars, and say where they are."""

from __future__ import annotations

import sys

from tallymark.processes.apache_kafka.jars import NotAvailableError, jars

if __name__ == "__main__":
    try:
        print(jars())  # noqa: T201  (what the command is for)
    except NotAvailableError as missing:
        sys.exit(str(missing))
