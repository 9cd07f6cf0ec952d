"""Whether what was measured is again as it was before."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

RATIO = 1.2
"""After an attack everything returns to within 20 % of before ..."""
ENOUGH = 20
"""... of medians of so many samples at least."""


def assert_as_before(
    before: Sequence[float], after: Sequence[float], granularity: float, what: str
) -> None:
    """Both by the same probe. ``granularity``, in its unit, is what it cannot tell apart."""
    assert min(len(before), len(after)) >= ENOUGH, f"{what}: {len(before)}, {len(after)} samples"
    old, new = median(before), median(after)
    print(f"{what}: median {old:.4g} before, {new:.4g} after ({len(before)}, {len(after)} samples)")
    assert new <= RATIO * old + granularity, f"{what}: {old:.4g} before, {new:.4g} after"
