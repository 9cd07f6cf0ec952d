"""Checks the records of batches by a compiled loop, for tools that read whole logs."""

from __future__ import annotations

from typing import Final

from tallymark.jit.kernel import Kernel
from tallymark.protocol.records.compiled import check_loop
from tallymark.protocol.records.compiled.kernel import BYTES
from tallymark.protocol.records.compiled.primitives import is_utf8, varint
from tallymark.protocol.schema import Buffer

KERNEL: Final = Kernel(
    f"{__name__}:KERNEL",
    "checking records",
    functions={check_loop.check_records: f"int64({BYTES}, int64, int64)"},
    helpers=(
        varint,
        is_utf8,
        check_loop.number_32,
        check_loop.after_sized,
        check_loop.after_headers,
    ),
)
warm: Final = KERNEL.warm
ready: Final = KERNEL.ready


def greatest_if_whole(payload: Buffer, count: int, last_delta: int) -> int | None:
    """The greatest timestamp delta of the ``count`` records that fill ``payload``, 0 where there
    are none. None where :func:`tallymark.protocol.records.check.check_records` must look at them,
    which says what is wrong."""
    import numpy as np

    data = np.frombuffer(memoryview(payload).toreadonly(), np.uint8)
    greatest: int = KERNEL["check_records"](data, count, last_delta)
    return None if greatest == check_loop.NOT_WHOLE else greatest
