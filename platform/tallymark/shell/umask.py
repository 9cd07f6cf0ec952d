"""What files and folders of ours allow others: nothing, unless asked."""

from __future__ import annotations

import os
import re
from typing import Final

from tallymark.errors import UserError

VARIABLE: Final = "TALLYMARK_UMASK"


def set_umask() -> None:
    """077: what a command or process of ours makes is its user's alone. ``TALLYMARK_UMASK`` has
    another one, in octal as in shells (``027`` lets a group read). UserError: it is none."""
    text = os.environ.get(VARIABLE, "077")
    if not re.fullmatch(r"[0-7]{1,4}", text):
        raise UserError(f"{VARIABLE}={text[:20]!r} is no umask", "give one like 077 or 027")
    os.umask(int(text, 8))
