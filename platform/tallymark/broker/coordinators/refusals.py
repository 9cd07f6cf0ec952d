"""Error codes of coordinators. Their clients do not expect the errors of the log."""

from __future__ import annotations

from typing import Final

from tallymark.errors import CODES, KafkaError

NOT_COORDINATOR: Final = CODES["NOT_COORDINATOR"]
NOT_AVAILABLE: Final = CODES["COORDINATOR_NOT_AVAILABLE"]
LOADING: Final = CODES["COORDINATOR_LOAD_IN_PROGRESS"]

_NOT_STORED: Final = {
    CODES["UNKNOWN_TOPIC_OR_PARTITION"]: NOT_AVAILABLE,
    CODES["NOT_ENOUGH_REPLICAS"]: NOT_AVAILABLE,
    CODES["NOT_ENOUGH_REPLICAS_AFTER_APPEND"]: NOT_AVAILABLE,
    CODES["REQUEST_TIMED_OUT"]: NOT_AVAILABLE,
    CODES["NOT_LEADER_OR_FOLLOWER"]: NOT_COORDINATOR,
    CODES["KAFKA_STORAGE_ERROR"]: NOT_COORDINATOR,
    CODES["FENCED_LEADER_EPOCH"]: NOT_COORDINATOR,
    NOT_COORDINATOR: NOT_COORDINATOR,
}


def refusal_of(error: KafkaError, too_large: str = "UNKNOWN_SERVER_ERROR") -> int:
    """The error code for a client whose record could not be appended, or is not committed in
    time."""
    if error.code in (CODES["MESSAGE_TOO_LARGE"], CODES["RECORD_LIST_TOO_LARGE"]):
        return CODES[too_large]
    return _NOT_STORED.get(error.code, CODES["UNKNOWN_SERVER_ERROR"])
