"""``python -m tallymark.jit module:NAME FOLDER``: compiles that kernel into the folder.

:meth:`tallymark.jit.kernel.Kernel.warm` starts it; there is no need to start it by hand.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

from tallymark.jit.compiler import compile_into
from tallymark.jit.kernel import NOT_WRITTEN, Kernel
from tallymark.jit.store import CodeStore


def main(name: str, folder: str) -> int:
    """The exit code."""
    os.nice(5)  # the process that waits for it works on meanwhile
    store = CodeStore(Path(folder))
    module, _, attribute = name.partition(":")
    kernel = getattr(import_module(module), attribute)
    assert isinstance(kernel, Kernel)
    try:
        with store.locked():
            compile_into(kernel, store)
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        return NOT_WRITTEN
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
