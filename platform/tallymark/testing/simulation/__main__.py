"""``python -m tallymark.testing.simulation SEED``: replay a seed and print its history.
``... FIRST END``: run the seeds from FIRST to before END, and shrink the first one that fails."""

from __future__ import annotations

import logging
import sys

from tallymark.testing.simulation.run import Outcome, run_seed
from tallymark.testing.simulation.shrink import shrink


def main(arguments: list[str]) -> int:
    """Exit status 1: an invariant does not hold; 2: wrong arguments."""
    if not 1 <= len(arguments) <= 2 or not all(each.isdecimal() for each in arguments):
        sys.stderr.write(f"{__doc__}\n")
        return 2
    logging.getLogger("tallymark").setLevel(logging.INFO)
    numbers = [int(each) for each in arguments]
    if len(numbers) == 1:
        outcome = run_seed(numbers[0])
        _tell(outcome)
        return int(outcome.broken is not None)
    failed = [outcome for seed in range(*numbers) if _fails(outcome := run_seed(seed))]
    if failed:
        _tell(shrink(failed[0]))
    return int(bool(failed))


def _fails(outcome: Outcome) -> bool:
    if outcome.broken is not None:
        sys.stdout.write(f"seed {outcome.plan.seed}: {outcome.broken}\n")
    return outcome.broken is not None


def _tell(outcome: Outcome) -> None:
    lines = ("log of the brokers:", *outcome.log, outcome.told)
    sys.stdout.write("\n".join((*lines, f"digest {outcome.history.digest}")) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
