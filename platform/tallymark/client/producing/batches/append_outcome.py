"""What an error says of the log: was the batch refused before the append, or may it be there?

An error is no promise that nothing was written. A leader that answers acks=all appends first and
then waits for the followers; what happens meanwhile is its answer. Apache Kafka (DelayedProduce)
answers so *after* the append:

===================================  ===========================================================
NOT_LEADER_OR_FOLLOWER               the leader stepped down while the request waited
UNKNOWN_TOPIC_OR_PARTITION, _ID      the replica went away (reassigned, deleted) while it waited
KAFKA_STORAGE_ERROR                  the disk failed, in the append or while it waited
NOT_ENOUGH_REPLICAS_AFTER_APPEND     too few in sync when it was to be answered
REQUEST_TIMED_OUT                    the followers did not have it in time
UNKNOWN_SERVER_ERROR                 anything, at any point
NETWORK_EXCEPTION, a bad answer      ours: no answer came, or none that can be read
===================================  ===========================================================

The same codes come before an append too, and nothing in the answer says which it was. So the table
below names what comes before an append *only*; of every other code, unknown ones too, the outcome
is unknown. The new leader may have copied the batch: a producer that gives its sequences to other
records gets those acknowledged as a repetition of it, and loses them (KIP-98, KAFKA-5494).
"""

from __future__ import annotations

from typing import Final

from tallymark.errors import CODES, KafkaError, LocalProtocolError, TallymarkError

REFUSED_BEFORE_APPEND: Final = frozenset(
    CODES[name]
    for name in (
        # the request: the records were not looked at
        "UNSUPPORTED_VERSION",
        "UNSUPPORTED_COMPRESSION_TYPE",
        "INVALID_REQUEST",
        "INVALID_REQUIRED_ACKS",
        "TOPIC_AUTHORIZATION_FAILED",
        "CLUSTER_AUTHORIZATION_FAILED",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        "INVALID_TOPIC_EXCEPTION",
        # the records, looked at before they are written
        "CORRUPT_MESSAGE",
        "MESSAGE_TOO_LARGE",
        "RECORD_LIST_TOO_LARGE",
        "INVALID_TIMESTAMP",
        "INVALID_RECORD",
        "UNSUPPORTED_FOR_MESSAGE_FORMAT",
        "POLICY_VIOLATION",
        # replicas, counted before the append (after it: NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        "NOT_ENOUGH_REPLICAS",
        # the producer, judged in the same step as the append
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
        "UNKNOWN_PRODUCER_ID",
        "INVALID_PRODUCER_EPOCH",
        "PRODUCER_FENCED",
        "INVALID_TXN_STATE",
        "INVALID_PRODUCER_ID_MAPPING",
        "CONCURRENT_TRANSACTIONS",
    )
)


def may_be_appended(error: TallymarkError) -> bool:
    """Whether a batch that came back with ``error`` may have been written by that attempt. It says
    nothing of earlier attempts."""
    if isinstance(error, KafkaError):
        return error.code not in REFUSED_BEFORE_APPEND
    return not isinstance(error, LocalProtocolError)  # which means that it has not left
