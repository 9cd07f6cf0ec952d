"""A flood in a process of its own, while a test looks at what it does to others."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def flood(script: str, address: str, kind: str) -> Iterator[None]:
    """``script`` (a file) against ``address``; it says when it has begun, and ends with its
    standard input, with the number of what was refused."""
    process = subprocess.Popen(
        [sys.executable, script, address, kind],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "began\n"
        time.sleep(2)
        yield
        made = process.communicate("")[0].strip()
        print(kind, "made", made)
        assert int(made) > 50  # 25 a second are refused
    finally:
        process.kill()
        process.wait()
