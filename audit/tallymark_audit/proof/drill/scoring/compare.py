"""What was found held against what had to be found. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tallymark_audit.proof.drill.truth.expected import KINDS, LOSS, Cell, Expectation, Finding


@dataclass(frozen=True, slots=True)
class Score:
    """One kind: of ``expected`` things ``right`` were found, and ``wrong`` that are none; the same
    in cells, where ``healthy`` are those that have nothing of the kind and of which nothing was
    said. Recall and precision are exact only at 100 %: they are compared as integers."""

    kind: str
    expected: int
    right: int
    wrong: int
    cells_expected: int
    cells_right: int
    cells_wrong: int
    healthy: int

    @property
    def perfect(self) -> bool:
        """Whether all was found, and nothing else."""
        cells = self.cells_expected == self.cells_right and not self.cells_wrong
        return self.expected == self.right and not self.wrong and cells


@dataclass(frozen=True, slots=True)
class Comparison:
    """``missed``: what is wrong and was not found; ``invented``: what was found and is not wrong;
    ``unplaced``: lost messages that are still upstream, without a place in the verdict."""

    scores: tuple[Score, ...]
    missed: frozenset[Finding] = frozenset()
    invented: frozenset[Finding] = frozenset()
    unplaced: frozenset[Finding] = frozenset()
    undecided: tuple[str, ...] = field(default_factory=tuple)

    def expected(self, kind: str) -> int:
        """How many things of the kind there were to find."""
        return sum(score.expected for score in self.scores if score.kind == kind)

    @property
    def perfect(self) -> bool:
        """Whether recall and precision are 100 %, everything is decided and every loss has a
        place where it has one."""
        whole = all(score.perfect for score in self.scores)
        return whole and not self.unplaced and not self.undecided


def compare(
    expectation: Expectation,
    found: set[Finding],
    located: set[Finding] | None = None,
    undecided: Iterable[str] = (),
) -> Comparison:
    """Compare item by item. ``located``: the missing messages whose place upstream was named; every
    loss on a mirror's hop has one, unless it is gone upstream, too."""
    believed = {item for item in found if item in expectation.items or not expectation.allows(item)}
    unplaced: set[Finding] = set()
    if located is not None:
        lost = {item for item in expectation.items if item.kind == LOSS}
        unplaced = {item for item in lost if item.mirrored} - expectation.gone - located
    return Comparison(
        scores=tuple(_score(kind, expectation, believed) for kind in KINDS),
        missed=frozenset(expectation.items - believed),
        invented=frozenset(believed - expectation.items),
        unplaced=frozenset(unplaced),
        undecided=tuple(undecided),
    )


def _score(kind: str, expectation: Expectation, believed: set[Finding]) -> Score:
    wanted = {item for item in expectation.items if item.kind == kind}
    said = {item for item in believed if item.kind == kind}
    bad, called = _cells(wanted), _cells(said)
    return Score(
        kind=kind,
        expected=len(wanted),
        right=len(wanted & said),
        wrong=len(said - wanted),
        cells_expected=len(bad),
        cells_right=len(bad & called),
        cells_wrong=len(called - bad),
        healthy=len((expectation.cells | bad) - bad - called),
    )


def _cells(items: Iterable[Finding]) -> set[Cell]:
    return {item.cell for item in items}
