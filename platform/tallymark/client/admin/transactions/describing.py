"""Transactional ids: list them, and describe what their coordinators know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tallymark.client.admin.base import AdminBase
from tallymark.client.admin.results import Outcomes, Results, refusal
from tallymark.client.admin.routes import find_coordinators
from tallymark.client.admin.transactions.hanging import KnownTransaction
from tallymark.errors import CODES, KafkaError, TallymarkError
from tallymark.net.addresses import Address
from tallymark.protocol import messages
from tallymark.protocol.coordinator_partition import TRANSACTION

_SINCE_DURATION = 1
_SINCE_PATTERN = 2


@dataclass(frozen=True, slots=True)
class TransactionFilter:
    """Which transactional ids are listed; all that is set must hold. ``open_for_ms``: only those
    whose transaction is open for so long or longer (KIP-994, Kafka 3.8); ``pattern``: only those
    that this RE2 pattern matches as a whole (KIP-1152, Kafka 4.1)."""

    states: tuple[str, ...] = ()
    producer_ids: tuple[int, ...] = ()
    open_for_ms: int | None = None
    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """A transactional id. ``state`` is Kafka's name, ``coordinator`` a broker's id."""

    transactional_id: str
    state: str
    producer_id: int
    coordinator: int = -1


@dataclass(frozen=True, slots=True)
class TransactionList:
    """The transactional ids by name, the states of the filter that no broker knows, and the brokers
    that did not return theirs."""

    transactions: Mapping[str, TransactionListing] = field(
        default_factory=dict[str, TransactionListing]
    )
    unknown_states: tuple[str, ...] = ()
    errors: Mapping[int, TallymarkError] = field(default_factory=dict[int, TallymarkError])


class DescribesTransactions(AdminBase):
    """The methods of Admin for transactional ids."""

    def list_transactions(self, only: TransactionFilter | None = None) -> TransactionList:
        """The transactional ids of all brokers, with ``only`` those that match; of these, those
        that we may DESCRIBE. KafkaError for a broker that is too old for the filter, and
        INVALID_REGULAR_EXPRESSION."""
        wanted = only or TransactionFilter()
        request = messages.ListTransactionsRequest(
            state_filters=wanted.states,
            producer_id_filters=wanted.producer_ids,
            duration_filter=-1 if wanted.open_for_ms is None else wanted.open_for_ms,
            transactional_id_pattern=wanted.pattern,
        )

        async def ask(address: Address) -> messages.ListTransactionsResponse:
            stream = await self._cluster.connections.get(address)
            _check_filter(wanted, stream.version_of(messages.ListTransactionsRequest))
            response = await self._cluster.ask(address, request)
            if response.error_code:
                raise KafkaError(response.error_code, f"transactions of {address}")
            return response

        answers = self._of_brokers(None, ask, "listing transactions")
        found = {
            one.transactional_id: TransactionListing(
                one.transactional_id, one.transaction_state, one.producer_id, broker
            )
            for broker, answer in answers.done.items()
            for one in answer.transaction_states
        }
        unknown = {
            name for answer in answers.done.values() for name in answer.unknown_state_filters
        }
        return TransactionList(dict(sorted(found.items())), tuple(sorted(unknown)), answers.errors)

    def describe_transactions(self, ids: Iterable[str]) -> Results[str, KnownTransaction]:
        """What coordinators know. KafkaError TRANSACTIONAL_ID_NOT_FOUND for an id that there is
        not; of its partitions, those of topics that we may DESCRIBE."""

        async def ask(address: Address, names: list[str]) -> Outcomes[str, KnownTransaction]:
            response = await self._cluster.ask(
                address, messages.DescribeTransactionsRequest(transactional_ids=tuple(names))
            )
            return {one.transactional_id: _known(one) for one in response.transaction_states}

        found = self._of_coordinators(ids, ask, "describing transactions", TRANSACTION)
        places = self._run(
            find_coordinators(self._cluster, found.done, TRANSACTION), "finding coordinators"
        )
        done = {name: _at(one, places[name]) for name, one in found.done.items()}
        return Results(done, found.errors)


def _check_filter(wanted: TransactionFilter, version: int) -> None:
    """A broker that does not know a filter would list everything."""
    for given, since, what in (
        (wanted.open_for_ms, _SINCE_DURATION, "how long transactions are open (Kafka 3.8)"),
        (wanted.pattern, _SINCE_PATTERN, "a pattern of ids (Kafka 4.1)"),
    ):
        if given is not None and version < since:
            raise KafkaError(CODES["UNSUPPORTED_VERSION"], f"the broker cannot filter by {what}")


def _known(
    one: messages.DescribeTransactionsResponseTransactionState,
) -> KnownTransaction | KafkaError:
    if one.error_code:
        return refusal(one.error_code, f"transactional id {one.transactional_id}")
    return KnownTransaction(
        one.transactional_id,
        one.transaction_state,
        one.producer_id,
        one.producer_epoch,
        one.transaction_timeout_ms,
        one.transaction_start_time_ms,
        frozenset((topic.topic, part) for topic in one.topics for part in topic.partitions),
    )


def _at(one: KnownTransaction, place: tuple[int, Address] | TallymarkError) -> KnownTransaction:
    return one if isinstance(place, TallymarkError) else replace(one, coordinator=place[0])
