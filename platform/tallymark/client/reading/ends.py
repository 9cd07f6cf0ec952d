"""The two ends of a log, as offsets that ask for them (ListOffsets has these numbers)."""

from __future__ import annotations

from typing import Final

EARLIEST: Final = -2
"""The first offset there is."""
LATEST: Final = -1
"""The offset that the next record gets."""
