"""Other people's clients may leave sockets to the garbage collector."""

from __future__ import annotations

import gc
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def leaving_sockets() -> Iterator[None]:
    """What a client leaves open within is collected at the end, without a complaint.

    Nothing is logged meanwhile. pytest keeps the records until the test has ended, a record keeps
    the error that it names, and the error keeps the frames in which the socket is.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        logging.disable()
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)
            gc.collect()
