"""What can go wrong, in one table and one tree.

The table holds the Kafka protocol's error codes (Kafka's ``Errors`` enum): name, code, whether a
retry can help, whose fault it is, and a sentence for people. The tree is what our code raises::

    TallymarkError                  everything of ours
    ├── UserError                   a person can mend it: what happened, and what to do
    ├── ProtocolError               bytes that are not what the protocol says
    │   ├── LocalProtocolError      we built or asked for something impossible: our caller's fault
    │   └── RemoteProtocolError     the other side sent it
    │       └── CorruptRecordError  a record batch whose CRC or lengths do not hold
    ├── KafkaError                  a broker answered with a code of the table
    │   ├── LogTruncatedError       the log was cut below a position we had read to (KIP-320)
    │   ├── OffsetOutOfRangeError   nothing says where to read on, and no policy may choose
    │   └── CommitFailedError       the group went on without the consumer that wants to commit
    ├── ConnectError                an address could not be reached: which, and at which stage
    │   └── AuthenticationError     we are not let in, or do not trust the broker: do not retry
    │       └── WrongClusterError   another cluster answers where ours was
    ├── TransactionError            a transaction did not end as it was asked to
    │   ├── TransactionAbortableError   abort it; the next one may succeed
    │   ├── TransactionFatalError   this producer cannot go on: close it
    │   └── CommitInDoubt           committed or not, nothing says yet: commit again to ask again
    ├── TimedOutError               a deadline passed; says whose and what was pending
    ├── BufferFullError             a producer's buffer is full, and it was set not to wait
    ├── ClientFailedError           a client's background work has died; make a new client
    ├── RecordDroppedError          an interceptor of the queue did not let a record in
    └── ClosedError                 used after close()
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

Fault = Literal["none", "client", "broker", "network"]


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """One row of the table. ``retriable`` is Kafka's RetriableException: the same request may
    succeed later; ``stale_metadata`` says to refresh metadata before it is sent again."""

    code: int
    name: str
    retriable: bool
    fault: Fault
    text: str
    stale_metadata: bool = False


def _table(*rows: ErrorRow) -> dict[int, ErrorRow]:
    return {row.code: row for row in rows}


# fmt: off
TABLE: Final[dict[int, ErrorRow]] = _table(
    ErrorRow(-1, "UNKNOWN_SERVER_ERROR", False, "broker", "the broker met an error it has no code for; see its log"),
    ErrorRow(0, "NONE", False, "none", "no error"),
    ErrorRow(1, "OFFSET_OUT_OF_RANGE", False, "client", "the offset is not within the partition's log"),
    ErrorRow(2, "CORRUPT_MESSAGE", True, "network", "the record batch failed its CRC or is otherwise corrupt"),
    ErrorRow(3, "UNKNOWN_TOPIC_OR_PARTITION", True, "client", "this broker does not host the topic or partition", True),
    ErrorRow(4, "INVALID_FETCH_SIZE", False, "client", "the fetch size is invalid"),
    ErrorRow(5, "LEADER_NOT_AVAILABLE", True, "broker", "the partition has no leader now", True),
    ErrorRow(6, "NOT_LEADER_OR_FOLLOWER", True, "client", "this broker does not lead the partition", True),
    ErrorRow(7, "REQUEST_TIMED_OUT", True, "network", "the request timed out"),
    ErrorRow(8, "BROKER_NOT_AVAILABLE", False, "broker", "the broker is not available"),
    ErrorRow(9, "REPLICA_NOT_AVAILABLE", True, "broker", "the replica is not available", True),
    ErrorRow(10, "MESSAGE_TOO_LARGE", False, "client", "the batch is larger than the broker accepts (max.message.bytes)"),
    ErrorRow(11, "STALE_CONTROLLER_EPOCH", False, "broker", "a newer controller is in charge"),
    ErrorRow(12, "OFFSET_METADATA_TOO_LARGE", False, "client", "the metadata of the committed offset is too large"),
    ErrorRow(13, "NETWORK_EXCEPTION", True, "network", "the connection closed before the response came", True),
    ErrorRow(14, "COORDINATOR_LOAD_IN_PROGRESS", True, "broker", "the coordinator is still loading"),
    ErrorRow(15, "COORDINATOR_NOT_AVAILABLE", True, "broker", "the coordinator is not available"),
    ErrorRow(16, "NOT_COORDINATOR", True, "client", "this broker is not the coordinator"),
    ErrorRow(17, "INVALID_TOPIC_EXCEPTION", False, "client", "a topic cannot have this name"),
    ErrorRow(18, "RECORD_LIST_TOO_LARGE", False, "client", "the batch is larger than a segment"),
    ErrorRow(19, "NOT_ENOUGH_REPLICAS", True, "broker", "fewer replicas in sync than required"),
    ErrorRow(20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", True, "broker", "written, but to fewer replicas in sync than required"),
    ErrorRow(21, "INVALID_REQUIRED_ACKS", False, "client", "acks must be -1, 0 or 1"),
    ErrorRow(22, "ILLEGAL_GENERATION", False, "client", "the group has moved on to another generation"),
    ErrorRow(23, "INCONSISTENT_GROUP_PROTOCOL", False, "client", "the group's members share no protocol with this one"),
    ErrorRow(24, "INVALID_GROUP_ID", False, "client", "the group id is not valid"),
    ErrorRow(25, "UNKNOWN_MEMBER_ID", False, "client", "the coordinator does not know this member"),
    ErrorRow(26, "INVALID_SESSION_TIMEOUT", False, "client", "the session timeout is outside the broker's bounds"),
    ErrorRow(27, "REBALANCE_IN_PROGRESS", False, "client", "the group is rebalancing, join again"),
    ErrorRow(28, "INVALID_COMMIT_OFFSET_SIZE", False, "client", "the offset commit is too large"),
    ErrorRow(29, "TOPIC_AUTHORIZATION_FAILED", False, "client", "not authorized for the topic"),
    ErrorRow(30, "GROUP_AUTHORIZATION_FAILED", False, "client", "not authorized for the group"),
    ErrorRow(31, "CLUSTER_AUTHORIZATION_FAILED", False, "client", "not authorized for the cluster"),
    ErrorRow(32, "INVALID_TIMESTAMP", False, "client", "the record's timestamp is out of the accepted range"),
    ErrorRow(33, "UNSUPPORTED_SASL_MECHANISM", False, "client", "the SASL mechanism is not enabled"),
    ErrorRow(34, "ILLEGAL_SASL_STATE", False, "client", "the request does not fit the SASL state"),
    ErrorRow(35, "UNSUPPORTED_VERSION", False, "client", "the API version is not supported"),
    ErrorRow(36, "TOPIC_ALREADY_EXISTS", False, "client", "the topic exists already"),
    ErrorRow(37, "INVALID_PARTITIONS", False, "client", "the number of partitions is not valid"),
    ErrorRow(38, "INVALID_REPLICATION_FACTOR", False, "client", "the replication factor exceeds the brokers there are"),
    ErrorRow(39, "INVALID_REPLICA_ASSIGNMENT", False, "client", "the replica assignment is not valid"),
    ErrorRow(40, "INVALID_CONFIG", False, "client", "the configuration is not valid"),
    ErrorRow(41, "NOT_CONTROLLER", True, "client", "this broker is not the controller", True),
    ErrorRow(42, "INVALID_REQUEST", False, "client", "the request is malformed or impossible"),
    ErrorRow(43, "UNSUPPORTED_FOR_MESSAGE_FORMAT", False, "client", "the message format does not support the request"),
    ErrorRow(44, "POLICY_VIOLATION", False, "client", "the request breaks a policy of the broker"),
    ErrorRow(45, "OUT_OF_ORDER_SEQUENCE_NUMBER", False, "client", "the producer's sequence number leaves a gap"),
    ErrorRow(46, "DUPLICATE_SEQUENCE_NUMBER", False, "client", "the producer's sequence number is older than the kept ones"),
    ErrorRow(47, "INVALID_PRODUCER_EPOCH", False, "client", "the producer's epoch is old"),
    ErrorRow(48, "INVALID_TXN_STATE", False, "client", "the operation does not fit the transaction's state"),
    ErrorRow(49, "INVALID_PRODUCER_ID_MAPPING", False, "client", "the producer id does not belong to the transactional id"),
    ErrorRow(50, "INVALID_TRANSACTION_TIMEOUT", False, "client", "the transaction timeout exceeds the broker's maximum"),
    ErrorRow(51, "CONCURRENT_TRANSACTIONS", True, "client", "another operation of the transaction is in progress"),
    ErrorRow(52, "TRANSACTION_COORDINATOR_FENCED", False, "broker", "a newer transaction coordinator is in charge"),
    ErrorRow(53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", False, "client", "not authorized for the transactional id"),
    ErrorRow(54, "SECURITY_DISABLED", False, "broker", "security features are off"),
    ErrorRow(55, "OPERATION_NOT_ATTEMPTED", False, "broker", "not attempted, since another part of the request failed"),
    ErrorRow(56, "KAFKA_STORAGE_ERROR", True, "broker", "the log directory is offline: see the broker's log, free or mend the disk", True),
    ErrorRow(57, "LOG_DIR_NOT_FOUND", False, "client", "the broker has no such log directory"),
    ErrorRow(58, "SASL_AUTHENTICATION_FAILED", False, "client", "wrong credentials"),
    ErrorRow(59, "UNKNOWN_PRODUCER_ID", False, "broker", "the broker no longer knows the producer id"),
    ErrorRow(60, "REASSIGNMENT_IN_PROGRESS", False, "broker", "the partition is being reassigned"),
    ErrorRow(68, "NON_EMPTY_GROUP", False, "client", "the group still has members"),
    ErrorRow(69, "GROUP_ID_NOT_FOUND", False, "client", "there is no such group"),
    ErrorRow(70, "FETCH_SESSION_ID_NOT_FOUND", True, "client", "the fetch session is not known"),
    ErrorRow(71, "INVALID_FETCH_SESSION_EPOCH", True, "client", "the fetch session's epoch is not the expected one"),
    ErrorRow(72, "LISTENER_NOT_FOUND", True, "broker", "the leader has no listener of that name", True),
    ErrorRow(73, "TOPIC_DELETION_DISABLED", False, "broker", "deleting topics is off"),
    ErrorRow(74, "FENCED_LEADER_EPOCH", True, "client", "the leader epoch is older than the broker's", True),
    ErrorRow(75, "UNKNOWN_LEADER_EPOCH", True, "client", "the leader epoch is newer than the broker's", True),
    ErrorRow(76, "UNSUPPORTED_COMPRESSION_TYPE", False, "client", "the request's version cannot carry this compression"),
    ErrorRow(77, "STALE_BROKER_EPOCH", False, "broker", "the broker has re-registered since"),
    ErrorRow(78, "OFFSET_NOT_AVAILABLE", True, "broker", "the leader's high watermark has not caught up", True),
    ErrorRow(79, "MEMBER_ID_REQUIRED", False, "client", "join again with the member id of this answer"),
    ErrorRow(80, "PREFERRED_LEADER_NOT_AVAILABLE", True, "broker", "the preferred leader is not available", True),
    ErrorRow(81, "GROUP_MAX_SIZE_REACHED", False, "client", "the group is full"),
    ErrorRow(82, "FENCED_INSTANCE_ID", False, "client", "another member uses this group.instance.id"),
    ErrorRow(83, "ELIGIBLE_LEADERS_NOT_AVAILABLE", True, "broker", "no replica that could lead is available", True),
    ErrorRow(84, "ELECTION_NOT_NEEDED", True, "client", "the partition has the leader that it should have"),
    ErrorRow(85, "NO_REASSIGNMENT_IN_PROGRESS", False, "client", "the partition is not being reassigned"),
    ErrorRow(86, "GROUP_SUBSCRIBED_TO_TOPIC", False, "client", "a member of the group is subscribed to the topic"),
    ErrorRow(87, "INVALID_RECORD", False, "client", "a record is not valid for the topic"),
    ErrorRow(88, "UNSTABLE_OFFSET_COMMIT", True, "broker", "offsets of an open transaction are pending"),
    ErrorRow(89, "THROTTLING_QUOTA_EXCEEDED", True, "client", "the quota is exceeded"),
    ErrorRow(90, "PRODUCER_FENCED", False, "client", "a newer producer has the transactional id"),
    ErrorRow(91, "RESOURCE_NOT_FOUND", False, "client", "there is no such resource"),
    ErrorRow(92, "DUPLICATE_RESOURCE", False, "client", "the resource exists already"),
    ErrorRow(93, "UNACCEPTABLE_CREDENTIAL", False, "client", "the credential does not meet the rules"),
    ErrorRow(95, "INVALID_UPDATE_VERSION", False, "client", "the feature cannot have that level"),
    ErrorRow(96, "FEATURE_UPDATE_FAILED", False, "broker", "the levels of features could not be changed"),
    ErrorRow(100, "UNKNOWN_TOPIC_ID", True, "client", "this broker does not host the topic id", True),
    ErrorRow(103, "INCONSISTENT_TOPIC_ID", True, "client", "the topic id is not the one in use", True),
    ErrorRow(105, "TRANSACTIONAL_ID_NOT_FOUND", False, "client", "there is no such transactional id"),
    ErrorRow(106, "FETCH_SESSION_TOPIC_ID_ERROR", True, "client", "the fetch session mixes topic names and topic ids"),
    ErrorRow(114, "MISMATCHED_ENDPOINT_TYPE", False, "client", "brokers are asked for what controllers know"),
    ErrorRow(115, "UNSUPPORTED_ENDPOINT_TYPE", False, "client", "there is no such type of endpoint"),
    ErrorRow(120, "TRANSACTION_ABORTABLE", False, "client", "the transaction has to be aborted"),
    ErrorRow(128, "INVALID_REGULAR_EXPRESSION", False, "client", "the pattern is none that the broker knows"),
)
# fmt: on

CODES: Final[dict[str, int]] = {row.name: row.code for row in TABLE.values()}


class TallymarkError(Exception):
    """The root of every error that Tallymark raises on purpose. Can be pickled, for pools of
    processes; its ``__cause__`` stays behind."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Exception's own calls the class with args, which is the text here.
        return _unpickled, (type(self), self.args, self.__dict__)


def _unpickled(kind: type[TallymarkError], args: tuple[Any, ...], state: dict[str, Any]) -> Any:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class UserError(TallymarkError):
    """Something a person can mend. The command line prints it as one line, without a traceback.

    ``what`` says what happened and to what; ``do`` says what to do about it.
    """

    def __init__(self, what: str, do: str = "", exit_code: int = 1) -> None:
        joint = " " if what.endswith("?") else "; "
        super().__init__(f"{what}{joint}{do}" if do else what)
        self.what = what
        self.do = do
        self.exit_code = exit_code


class ProtocolError(TallymarkError):
    """Bytes or requests that are not what the protocol says."""


class LocalProtocolError(ProtocolError):
    """Our side built or asked for something the protocol has no form for."""


class RemoteProtocolError(ProtocolError):
    """The other side sent bytes that do not decode; the connection must be closed."""


class CorruptRecordError(RemoteProtocolError):
    """A record batch whose CRC, lengths or counts do not hold."""


class KafkaError(TallymarkError):
    """A broker answered with an error code.

    Attributes ``code``, ``name``, ``retriable``, ``stale_metadata``, ``fault`` and ``text`` are
    the row of :data:`TABLE`; ``context`` says for what (topic, partition, group).
    """

    def __init__(self, code: int, context: str = "") -> None:
        row = TABLE.get(code) or ErrorRow(code, f"ERROR_{code}", False, "broker", "unknown code")
        self.code = code
        self.name = row.name
        self.retriable = row.retriable
        self.stale_metadata = row.stale_metadata
        self.fault = row.fault
        self.text = row.text
        self.context = context
        super().__init__(
            f"{context}: {row.name}: {row.text}" if context else f"{row.name}: {row.text}"
        )


class RecordsRefusedError(KafkaError):
    """A batch was refused for some of its records: ``record_errors`` has the place of each in the
    batch, from 0 on, and what is wrong with it (KIP-467)."""

    def __init__(self, code: int, context: str, record_errors: Sequence[tuple[int, str]]) -> None:
        super().__init__(code, context)
        self.record_errors = tuple(record_errors)


class LogTruncatedError(KafkaError):
    """The log was cut below the position read so far (KIP-320): what was read from
    ``diverging_offset`` on is no longer in the log, other records may stand there now."""

    def __init__(self, topic: str, partition: int, position: int, diverging_offset: int) -> None:
        super().__init__(
            CODES["OFFSET_OUT_OF_RANGE"],
            f"{topic}-{partition} was cut at offset "
            f"{diverging_offset}, below the position {position}",
        )
        self.topic = topic
        self.partition = partition
        self.position = position
        self.diverging_offset = diverging_offset


class CorruptMessageError(KafkaError, CorruptRecordError):
    """What a broker gave is no record batch, or its records are not what it says (CORRUPT_MESSAGE):
    of which partition, in the batch at or behind which ``offset``, from whom. ``reason``: what does
    not hold. ``next_offset``: what follows the batch, as its header has it, so where to go on to
    leave it out; -1: the header cannot be read either. ``intact``: the CRC holds, so
    it is what a producer sent, and no reading will find anything else."""

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        reason: object,
        source: str = "",
        next_offset: int = -1,
        intact: bool = False,
    ) -> None:
        by = f"{source}: " if source else ""
        context = f"{by}{topic}-{partition} at offset {offset}: {reason}"
        if next_offset >= 0:
            context += f" (to leave it out, go on at offset {next_offset})"
        super().__init__(CODES["CORRUPT_MESSAGE"], context)
        self.reason = str(reason)
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.next_offset = next_offset
        self.intact = intact


class BatchCutError(CorruptMessageError):
    """The first batch of an answer was cut: its content is unknown; a larger fetch may have it."""


class OffsetOutOfRangeError(KafkaError):
    """A consumer with ``auto_offset_reset="none"`` does not know where to read on: the log has no
    offset ``position`` (None: the group has stored none); it holds ``start`` to ``end`` - 1."""

    def __init__(
        self, topic: str, partition: int, position: int | None, start: int, end: int
    ) -> None:
        held = f"the log holds offsets {start} to {end - 1}" if start < end else "the log is empty"
        what = "no offset is stored" if position is None else f"there is no offset {position}"
        super().__init__(CODES["OFFSET_OUT_OF_RANGE"], f"{topic}-{partition}: {what}, {held}")
        self.topic = topic
        self.partition = partition
        self.position = position
        self.start = start
        self.end = end


class CommitFailedError(KafkaError):
    """Offsets were not stored: their partitions are no longer this consumer's. Their new owner
    goes on from what was stored before, so what was done since is done again. The text has the
    numbers: generations, how long the last messages were worked on, the limit."""


class ConnectError(TallymarkError):
    """No connection: ``address`` is host:port, ``stage`` is resolve, connect, tls, api, sasl,
    cluster or bootstrap, and request for one that was open; ``resolved`` are the IP addresses of a
    host name, once they are known. ``is_refused``: the machine answered that no process listens
    there, at any of these addresses."""

    is_refused = False

    def __init__(self, address: str, stage: str, reason: str) -> None:
        super().__init__(f"{address}: {stage} failed: {reason}")
        self.address = address
        self.stage = stage
        self.reason = reason
        self.resolved: tuple[str, ...] = ()

    def add(self, note: str, resolved: tuple[str, ...] = ()) -> None:
        """Say more: a sentence at the end, and the IP addresses that the host name stands for."""
        self.reason = f"{self.reason}; {note}" if note else self.reason
        self.resolved = self.resolved or resolved
        names = f" ({', '.join(self.resolved)})" if self.resolved else ""
        self.args = (f"{self.address}{names}: {self.stage} failed: {self.reason}",)


class AuthenticationError(ConnectError):
    """The broker does not let us in, or is not the broker that it should be (stage tls or sasl): a wrong
    password, a mechanism that is not enabled, a certificate without trust. Trying again does not
    help, so clients raise it at once."""


class WrongClusterError(AuthenticationError):
    """Behind an address of the client's cluster another cluster answers now (stage cluster): its
    brokers changed places. Nothing is published there, or read from there."""

    def __init__(self, address: str, expected: str, found: str) -> None:
        super().__init__(
            address,
            "cluster",
            f"cluster {found} answers here, this client belongs to cluster {expected}; if that is "
            "meant, make a new client, else mend the address",
        )
        self.expected = expected
        self.found = found


class TransactionError(TallymarkError):
    """A transaction did not end as it was asked to: its subclasses say what can be done."""

    def __init__(self, transactional_id: str, text: str) -> None:
        super().__init__(transactional_id, text)
        self.transactional_id = transactional_id
        self.text = text

    def __str__(self) -> str:
        return f"transactional id {self.transactional_id}: {self.text}"


class TransactionAbortableError(TransactionError):
    """The transaction cannot be committed any more: call abort_transaction() and begin another."""


class TransactionFatalError(TransactionError):
    """The producer can do nothing more under its transactional id: another one has it, or it may
    not use it. Close it."""


class CommitInDoubt(TransactionError):
    """Whether the transaction is committed is not known. commit_transaction() asks again; where a
    new producer has the id, or this one is closed, read what it has written."""


class TimedOutError(TallymarkError):
    """A deadline passed. The text says whose it was and what was still pending."""


class BufferFullError(TallymarkError):
    """A producer's buffer had no room for a record, and it was set not to wait for it
    (``on_buffer_full`` "fail" or "drop"). The text says how full it is. Retriable: later."""


class ClientFailedError(TallymarkError):
    """Something that a client does in the background has died of ``__cause__``, which was not
    expected. What was pending has failed with this error; every later call raises it."""

    def __init__(self, client: str, work: str, cause: BaseException) -> None:
        super().__init__(
            f"{client} cannot go on: {work} died of {type(cause).__name__}: {cause}; close it, "
            "make a new one, and report the traceback in the log"
        )
        self.__cause__ = cause


class RecordDroppedError(TallymarkError):
    """An interceptor of the producer's queue did not let a record in."""


class ClosedError(TallymarkError):
    """An object was used after its close()."""


def check(code: int, context: str = "") -> None:
    """Raise :class:`KafkaError` unless ``code`` is 0 (NONE)."""
    if code:
        raise KafkaError(code, context)
