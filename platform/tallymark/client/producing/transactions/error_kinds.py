"""What an error leaves a transactional producer: try again, abort, or give up (KIP-1050). Pure."""

from __future__ import annotations

from enum import Enum
from typing import Final

from tallymark.errors import CODES, KafkaError, TallymarkError


class ErrorKind(Enum):
    """What can be done after an error."""

    RETRY = "try again"
    """The same request may succeed."""
    ABORT = "abort"
    """The transaction cannot be committed any more; the next one may succeed."""
    FATAL = "give up"
    """This producer can do nothing more under its transactional id."""


_FATAL: Final = frozenset(
    CODES[name]
    for name in (
        "PRODUCER_FENCED",
        "INVALID_PRODUCER_ID_MAPPING",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        "CLUSTER_AUTHORIZATION_FAILED",
        "INVALID_TRANSACTION_TIMEOUT",
        "UNSUPPORTED_VERSION",
        "UNSUPPORTED_FOR_MESSAGE_FORMAT",
    )
)
_OF_COORDINATOR: Final = frozenset(
    CODES[name] for name in ("INVALID_PRODUCER_EPOCH", "INVALID_TXN_STATE")
)
"""Fatal where the transaction coordinator says so; a partition's leader or a group's coordinator
may only be behind (KIP-588)."""
_ABORT: Final = frozenset(
    CODES[name]
    for name in (
        "TRANSACTION_ABORTABLE",
        "TOPIC_AUTHORIZATION_FAILED",
        "GROUP_AUTHORIZATION_FAILED",
        "ILLEGAL_GENERATION",
        "UNKNOWN_MEMBER_ID",
        "FENCED_INSTANCE_ID",
        "OPERATION_NOT_ATTEMPTED",
        "UNKNOWN_SERVER_ERROR",
    )
)
UNCLEAR: Final = frozenset(
    CODES[name] for name in ("UNKNOWN_SERVER_ERROR", "REQUEST_TIMED_OUT", "NETWORK_EXCEPTION")
)
"""After these the coordinator may have done what it was asked, or do it yet."""


def kind_of_answer(code: int, by_coordinator: bool) -> ErrorKind:
    """Of an error in the answer to a request of the transaction. ``by_coordinator``: the
    transaction coordinator answered, who alone knows what is fenced."""
    if code in _FATAL or (by_coordinator and code in _OF_COORDINATOR):
        return ErrorKind.FATAL
    if code in _ABORT or not KafkaError(code).retriable:
        return ErrorKind.ABORT
    return ErrorKind.RETRY


def kind_of_lost_batch(error: TallymarkError) -> ErrorKind:
    """Of the error with which a batch was given up: it will not be sent again."""
    fatal = isinstance(error, KafkaError) and error.code in _FATAL
    return ErrorKind.FATAL if fatal else ErrorKind.ABORT


def is_unclear(error: TallymarkError) -> bool:
    """Whether the coordinator may have done, or do later, what this request asked for: there was
    no answer, or one that does not say."""
    return not isinstance(error, KafkaError) or error.code in UNCLEAR
