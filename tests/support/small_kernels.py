"""Kernels that compile in a second, for tests of :mod:`tallymark.jit`."""

from __future__ import annotations

import logging
import sys
from typing import Any, Final

from tallymark.jit.kernel import Kernel

STEP: Final = 3


def twice(number: int) -> int:
    return number * 2


def add(number: int) -> int:
    return twice(number) + STEP


def no_such(number: int) -> Any:
    return open(str(number)).read()  # nothing that numba knows


ADD: Final = Kernel("small_kernels:ADD", "adding", {add: "int64(int64)"}, (twice,))
BAD: Final = Kernel("small_kernels:BAD", "reading", {no_such: "int64(int64)"})
CRASH: Final = Kernel("small_kernels:CRASHES", "crashing", {add: "int64(int64)"})
NO_TYPES: Final = Kernel("small_kernels:NO_TYPES", "typing", {add: "int65(int64)"}, (twice,))


def new(kernel: Kernel = ADD) -> Kernel:
    """As another process has it: cold."""
    return Kernel(kernel.name, kernel.what, kernel.functions, kernel.helpers)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    ADD.warm()
    if "--exit" not in sys.argv:
        ADD.wait()
        print(ADD["add"](7) if ADD.ready() else "not ready", "numba" in sys.modules)
