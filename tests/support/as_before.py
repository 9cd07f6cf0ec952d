"""Whether what was measured is again as it was before."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median, quantiles

RATIO = 1.2
"""After an attack everything returns to within 20 % of before ..."""
ENOUGH = 20
"""... of so many samples at least."""


def assert_as_before(
    before: Sequence[float], after: Sequence[float], granularity: float, what: str
) -> None:
    """Both by the same probe. ``granularity``, in its unit, is what it cannot tell apart.

    The fastest tenths are compared. The medians were, until other processes took the processors in
    the second half of such a test: a machine that is busy makes some samples longer, and what an
    attack leaves behind in a process makes all of them longer."""
    assert min(len(before), len(after)) >= ENOUGH, f"{what}: {len(before)}, {len(after)} samples"
    old, new = (quantiles(each, n=10)[0] for each in (before, after))
    said = (
        f"{what}: {old:.4g} before, {new:.4g} after (the fastest tenth of {len(before)} and "
        f"{len(after)} samples); medians {median(before):.4g} and {median(after):.4g}"
    )
    print(said)
    assert new <= RATIO * old + granularity, said
