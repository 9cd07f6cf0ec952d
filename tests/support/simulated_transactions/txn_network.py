"""Requests on their way: they arrive late, after a repetition of theirs, in another order, or not
at all; answers are lost. A request is never doubled: who gets no answer sends it again."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from simulated_agenda import Agenda

from tallymark.broker.partitions.verifier import InTransaction
from tallymark.errors import CODES
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.transactions.inputs import Add
from tallymark.transactions.transaction import TV2

Reply = Callable[[Any], None]
Act = Callable[[Reply], None]
"""What the other side does; it replies once, perhaps later."""

_QUICK: Final = (1, 1, 1, 2, 2, 5, 20)
_LATE: Final = (30, 150, 400, 900, 1_500, 3_000)


class Network:
    """``late`` and ``loss`` are the parts of messages that are late and lost."""

    def __init__(self, agenda: Agenda, chances: random.Random) -> None:
        self._agenda = agenda
        self._random = chances
        self._late = chances.choice((0.0, 0.02, 0.1))
        self._loss = chances.choice((0.0, 0.02, 0.1))
        self._bad_until_ms = 0
        self._healed = False

    def worsen(self, until_ms: int) -> None:
        """Half of all messages are late or lost."""
        self._bad_until_ms = until_ms

    def heal(self) -> None:
        """New messages are quick; those on their way stay as late as they are."""
        self._healed = True

    def ask(self, alive: Callable[[], bool], act: Act, answered: Reply, timeout_ms: int) -> None:
        """``answered`` with the answer, or with None after the time; not when who asked has ended
        (``alive``)."""
        waiting = [True]

        def give(answer: Any) -> None:
            if waiting[0] and alive():
                waiting[0] = False
                answered(answer)

        def reply(answer: Any) -> None:
            delay = self._delay()
            if delay is not None:
                self._agenda.after(delay, give, answer)

        delay = self._delay()
        if delay is not None:
            self._agenda.after(delay, act, reply)
        self._agenda.after(timeout_ms, give, None)

    def _delay(self) -> int | None:
        chance = self._random
        if self._healed:
            return chance.choice(_QUICK)
        bad = self._agenda.now_ms < self._bad_until_ms
        if chance.random() < (0.25 if bad else self._loss):
            return None
        if chance.random() < (0.35 if bad else self._late):
            return chance.choice(_LATE)
        return chance.choice(_QUICK)


class AskingBrokers:
    """What a partition's leader asks of the coordinator, as AskingCoordinators does."""

    TRIES: Final = 6
    AGAIN_MS: Final = 20
    ANSWER_MS: Final = 1_000

    def __init__(self, world: Any) -> None:
        self._world = world

    def ask(
        self, transaction: InTransaction, place: TopicPartition, answered: Callable[[int], None]
    ) -> None:
        self._try(transaction, place, answered, 1)

    def _try(
        self,
        transaction: InTransaction,
        place: TopicPartition,
        answered: Callable[[int], None],
        number: int,
    ) -> None:
        world = self._world
        name, producer_id, epoch, adds = transaction

        def act(reply: Reply) -> None:
            if adds:
                add = Add(producer_id, epoch, frozenset((place,)), TV2)
                world.coordinator.add(str(place), name, add, lambda decision: reply(decision.error))
            else:
                world.coordinator.verify(name, (producer_id, epoch), place, reply)

        def heard(code: int | None) -> None:
            if code is None:
                answered(CODES["NETWORK_EXCEPTION"])
            elif code == CODES["CONCURRENT_TRANSACTIONS"] and number < self.TRIES:
                again = partial(self._try, transaction, place, answered, number + 1)
                world.agenda.after(self.AGAIN_MS, again)
            else:
                answered(code)

        world.network.ask(lambda: True, act, heard, self.ANSWER_MS)
