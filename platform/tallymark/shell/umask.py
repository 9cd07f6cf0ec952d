"""Files and folders of ours are open to their user alone, unless the user asks for more."""

from __future__ import annotations

import os
import re
from typing import Final

from tallymark.errors import UserError

VARIABLE: Final = "TALLYMARK_UMASK"


def set_umask() -> None:
    """Set the umask 077: new files are their user's alone. ``TALLYMARK_UMASK`` replaces it, in
    octal as in shells (``027`` lets a group read). Raises UserError if that is no umask."""
    text = os.environ.get(VARIABLE, "077")
    if not re.fullmatch(r"[0-7]{1,4}", text):
        raise UserError(f"{VARIABLE}={text[:20]!r} is no umask", "give one like 077 or 027")
    os.umask(int(text, 8))
