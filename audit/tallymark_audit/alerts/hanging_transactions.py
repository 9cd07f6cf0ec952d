"""The rule about transactions that hang: open in a partition, though no coordinator will end them.
Pure.

A coordinator ends each transaction after its timeout, ``transaction.max.timeout.ms`` at most. One
that is open for longer (than its own timeout, where a coordinator says that) is known to its
partition alone (KIP-664): until a person ends it, readers of committed records, and so the audit,
stand still where it begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from tallymark.untrusted import command
from tallymark_audit.alerts.conditions import Condition, condition
from tallymark_audit.alerts.payload import LINK
from tallymark_audit.model.open_transaction import OpenTransaction

HANGING: Final = "TallymarkTransactionHangs"
HOLD_MS: Final = 5_000


def hanging_transactions(
    found: Iterable[OpenTransaction], link: Callable[[str], str]
) -> Iterator[Condition]:
    """One condition a partition; ``link`` makes the address of a topic's page."""
    for one in found:
        yield condition(
            HANGING,
            "critical",
            {"cluster": one.cluster, "topic": one.topic, "partition": str(one.partition)},
            {
                "summary": one.reason,
                "description": f"longer than {_limit(one)}: it hangs. Consumers of "
                "committed records stand still there, and windows that wait for it are UNKNOWN. "
                "Find it, and abort it: "
                + command("tallymark transactions", "find-hanging", cluster=one.cluster),
                LINK: link(one.topic),
            },
            HOLD_MS,
        )


def _limit(one: OpenTransaction) -> str:
    if one.timeout:
        return f"its own timeout of {one.timeout / 1000:g} s, after which its coordinator ends it"
    return "audit.hanging_transaction_ms"
