"""How many files and sockets this process may have open."""

from __future__ import annotations

import logging
import resource
from contextlib import suppress

log = logging.getLogger(__name__)


def raise_descriptor_limit() -> int:
    """Raise the soft limit (often 1,024) to the hard one; returns the limit that holds then.

    A broker has a descriptor for each segment in use and each connection: at the limit it could
    accept no connection and open no log, though nothing is wrong.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(ValueError, OSError):  # macOS has a lower ceiling than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            log.info("descriptors: %d, the soft limit was %d", hard, soft)
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
