"""The settings of one broker: a frozen class whose fields are its reference manual.

A field ``log_segment_bytes`` is the setting ``log.segment.bytes``; its docstring is its
documentation. Settings come from Kafka's names (:mod:`tallymark.broker.settings.text`) or from
keywords (``BrokerSettings(num_partitions=4)``, in Python).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    model_validator,
)

from tallymark.broker.settings.config_types import LONG_MAX, list_of, split
from tallymark.broker.settings.listeners import (
    WILDCARDS,
    Listener,
    endpoints,
    off_loopback,
    parse_listeners,
    parse_protocol_map,
)
from tallymark.coordination import Access
from tallymark.log.config import RecordValidation
from tallymark.net.sasl.mechanisms import ALL_MECHANISMS, OAUTHBEARER
from tallymark.net.sasl.oauth_urls import check_oauth_url
from tallymark.net.tls.contexts import ClientAuth
from tallymark.net.tls.principals import PrincipalRules

WEEK_MS: Final = 7 * 24 * 3_600_000

Positive = Annotated[int, Field(ge=1, le=LONG_MAX)]
Limit = Annotated[int, Field(ge=-1, le=LONG_MAX)]
Port = Annotated[int, Field(ge=0, le=65535)]

OTHER_NAMES: Final = {"broker.id": "node.id", "log.dir": "log.dirs"}
"""Older names of Kafka that mean the same setting."""

SECRET_WORDS: Final = ("password", "secret", "jaas")
"""A setting with one of these in its name is never shown."""


def is_secret(field: str) -> bool:
    """Whether the value of a setting is secret."""
    return any(word in field for word in SECRET_WORDS)


def _policy(text: str) -> str:
    list_of("delete", "compact")(text)
    return text


def _gzip_level(value: int) -> int:
    if value != -1 and not 1 <= value <= 9:
        raise ValueError("must be from 1 to 9, or -1")
    return value


def _principal_rules(text: str) -> str:
    PrincipalRules(text)
    return text


def _mechanisms(text: str) -> str:
    list_of(*ALL_MECHANISMS)(text)
    return text


def kafka_name(field: str) -> str:
    """``log_segment_bytes`` -> ``log.segment.bytes``."""
    return field.replace("_", ".")


class BrokerSettings(BaseModel):
    """All settings of a broker. Times are milliseconds, sizes bytes, -1 means no limit."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=kafka_name,
        populate_by_name=True,
        use_attribute_docstrings=True,
    )

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """The fields without secrets, for every form of printing, in debuggers and tracebacks
        too."""
        for name, value in super().__repr_args__():
            yield name, "(hidden)" if value and name and is_secret(name) else value

    node_id: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    """The broker's number, unique in its cluster (also: ``broker.id``)."""

    host_name: str = "127.0.0.1"
    """The address to listen on. Loopback unless you say otherwise."""

    port: Port = 9092
    """The port to listen on; 0 takes any free one."""

    advertised_host_name: str = ""
    """The host in the address that clients get; empty: ``host.name``. Needed where that is a
    wildcard like 0.0.0.0, which no client can connect to."""

    advertised_port: Port = 0
    """The port in the address that clients get; 0: the one listened on."""

    listeners: str = ""
    """Several places to listen, each with a name that says how it is secured:
    ``PLAINTEXT://127.0.0.1:9092,SASL_SSL://10.0.0.7:9094``. It is used in place of ``host.name``
    and ``port``. The names are PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL, and those of
    ``listener.security.protocol.map``."""

    advertised_listeners: str = ""
    """The address that clients of each listener get, by the listener's name:
    ``SASL_SSL://broker-7.example:9094``. Clients of a listener that is not named here get its
    own."""

    listener_security_protocol_map: str = ""
    """Names of your own for listeners: ``INSIDE:SASL_PLAINTEXT,OUTSIDE:SASL_SSL``."""

    listeners_allow_plaintext: bool = False
    """Whether a listener that is reached from other machines may go without TLS: everything on
    the network can then be read and changed, passwords of PLAIN included."""

    ssl_keystore_type: Literal["PEM"] = "PEM"
    """The form of keystore and truststore; PEM is the only one."""

    ssl_keystore_location: str = ""
    """The PEM file with the broker's private key and its certificate chain. It is read again at
    SIGHUP."""

    ssl_key_password: str = ""
    """The password of the private key, where it is encrypted."""

    ssl_truststore_type: Literal["PEM"] = "PEM"
    """See ``ssl.keystore.type``."""

    ssl_truststore_location: str = ""
    """The PEM file with the authorities whose certificates clients may show."""

    ssl_client_auth: ClientAuth = "none"
    """Whether clients of SSL listeners show a certificate: ``none``, ``requested`` or ``required``.
    Its distinguished name is the user: ``User:CN=alice,O=Example``. (Listeners of SASL_SSL ask for
    none, there SASL names the user.)"""

    ssl_principal_mapping_rules: Annotated[str, AfterValidator(_principal_rules)] = "DEFAULT"
    """How a distinguished name becomes a user: ``RULE:^CN=([^,]+),.*$/$1/L,DEFAULT`` takes the
    common name in lower case. The first rule that fits counts; DEFAULT is the name as it is."""

    ssl_handshake_timeout_ms: Annotated[int, Field(ge=100, le=600_000)] = 10_000
    """A TLS handshake that takes longer is given up."""

    sasl_enabled_mechanisms: Annotated[str, AfterValidator(_mechanisms)] = (
        "SCRAM-SHA-256,SCRAM-SHA-512"
    )
    """How clients of SASL listeners may log in: ``SCRAM-SHA-256``, ``SCRAM-SHA-512``, ``PLAIN``,
    which check the same users (``tallymark users``), and ``OAUTHBEARER``: a JSON Web Token (JWT)
    names the user."""

    sasl_oauthbearer_jwks_endpoint_url: str = ""
    """Where the public keys are that tokens are checked with, a JSON Web Key Set:
    ``https://...`` or ``file:///...`` (``http`` on this machine alone). They are read again from
    time to time, and when a token names a key that is not known, at most once in 10 seconds."""

    sasl_oauthbearer_jwks_endpoint_refresh_ms: Annotated[int, Field(ge=1000, le=86_400_000)] = (
        3_600_000
    )
    """How often the keys are read again."""

    sasl_oauthbearer_expected_audience: str = ""
    """The audience that tokens must have (``aud``): one of these, comma separated. Empty: any, so a
    token of the issuer for another service can log in, too."""

    sasl_oauthbearer_expected_issuer: str = ""
    """The issuer that tokens must have (``iss``); empty: any that signs with the keys."""

    sasl_oauthbearer_sub_claim_name: Annotated[str, Field(min_length=1)] = "sub"
    """The claim with the user: ``alice`` there is ``User:alice``."""

    sasl_oauthbearer_scope_claim_name: Annotated[str, Field(min_length=1)] = "scope"
    """The claim that lists scopes: a text with blanks, or a list."""

    sasl_oauthbearer_required_scope: str = ""
    """A scope that tokens must have; empty: none. (Not one of Kafka's settings.)"""

    sasl_oauthbearer_clock_skew_seconds: Annotated[int, Field(ge=0, le=3600)] = 30
    """How far the clocks of the issuer and the broker may be apart."""

    connections_max_reauth_ms: Annotated[int, Field(ge=0, le=LONG_MAX)] = 0
    """Clients have to log in again on their open connection before so long (KIP-368); it is closed
    otherwise. A token holds until it expires, and no longer than this. 0: the other mechanisms hold
    for as long as the connection is open."""

    sasl_server_max_receive_size: Annotated[int, Field(ge=1024, le=2**31 - 1)] = 524_288
    """The largest request of a client that has not logged in yet."""

    connection_failed_authentication_delay_ms: Annotated[int, Field(ge=0, le=60_000)] = 100
    """A client whose log-in failed hears of it so much later."""

    authorizer_enable: bool = False
    """Whether access-control lists are in force (``tallymark acls``). Once they are, a user
    may do only what an entry allows."""

    super_users: str = ""
    """Users that may do everything, whatever the lists say:
    ``User:alice;User:CN=admin,O=Example``."""

    allow_everyone_if_no_acl_found: bool = False
    """Whether all users may use a resource that has no entry."""

    admin_trail_file: str = ""
    """The file with every creation, change and deletion of topics, configs, users, quotas,
    access-control lists, groups and records, by which user, from where, and with which result: one
    JSON object a line. Empty: ``admin-trail.jsonl`` in the first of ``log.dirs``; ``none``:
    nowhere."""

    admin_trail_file_max_bytes: Annotated[int, Field(ge=4096, le=2**40)] = 16_777_216
    """The file is renamed to ``.1`` at this size, that to ``.2``, and so on."""

    admin_trail_files_kept: Annotated[int, Field(ge=0, le=1000)] = 10
    """How many renamed ones are kept."""

    admin_trail_topic: str = ""
    """A topic that gets the same, each broker in a partition that it leads; empty: none. Where it
    is not there it is made, and keeps a year."""

    broker_rack: str = ""
    """The rack or zone of this broker; clients get it with the metadata."""

    log_dirs: tuple[Path, ...] = (Path("tallymark-data"),)
    """Folders of the partitions, comma separated. A new partition goes to the emptiest one
    (also: ``log.dir``)."""

    num_partitions: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Partitions of a topic created without a number."""

    default_replication_factor: Annotated[int, Field(ge=1, le=1)] = 1
    """Replicas of a partition of a topic created without a number. There is one."""

    auto_create_topics_enable: bool = True
    """Whether asking for the metadata of an unknown topic creates it."""

    delete_topic_enable: bool = True
    """Whether topics can be deleted."""

    log_cleanup_policy: Annotated[str, AfterValidator(_policy)] = "delete"
    """What becomes of old records: ``delete``, ``compact`` or both, comma separated
    (topic: ``cleanup.policy``)."""

    log_cleaner_enable: bool = True
    """Whether compacted topics are compacted, by a process of their own."""

    log_cleaner_backoff_ms: Positive = 15_000
    """How long the cleaner sleeps where no log is worth a compaction."""

    log_cleaner_dedupe_buffer_size: Annotated[int, Field(ge=1024, le=2**40)] = 134_217_728
    """Memory for the keys of the logs that are being compacted (four at most), about 200 bytes a
    key. One alone has three quarters of it; a log with more keys is compacted part by part."""

    log_cleaner_io_max_bytes_per_second: Limit = -1
    """The most that a compaction reads and writes in a second."""

    log_cleaner_min_cleanable_ratio: Annotated[float, Field(ge=0, le=1)] = 0.5
    """A log is compacted when this share of it was written since the last time
    (topic: ``min.cleanable.dirty.ratio``)."""

    log_cleaner_min_compaction_lag_ms: Annotated[int, Field(ge=0, le=LONG_MAX)] = 0
    """A record younger than this is not compacted (topic: ``min.compaction.lag.ms``)."""

    log_cleaner_max_compaction_lag_ms: Positive = LONG_MAX
    """A record does not wait longer for its compaction (topic: ``max.compaction.lag.ms``)."""

    log_cleaner_delete_retention_ms: Annotated[int, Field(ge=0, le=LONG_MAX)] = 86_400_000
    """How long a tombstone stays after it was compacted first (topic: ``delete.retention.ms``)."""

    log_segment_bytes: Annotated[int, Field(ge=1024, le=2**31 - 1)] = 1024**3
    """A segment of the log is rolled at this size (topic: ``segment.bytes``)."""

    log_roll_ms: Positive = WEEK_MS
    """A segment is rolled at this age (topic: ``segment.ms``)."""

    log_index_interval_bytes: Positive = 4096
    """Bytes of log between two entries of the sparse index (topic: ``index.interval.bytes``)."""

    log_flush_interval_messages: Positive = LONG_MAX
    """A partition is flushed to the disk after so many messages (topic: ``flush.messages``)."""

    log_flush_interval_ms: Positive = 3000
    """A partition is flushed when a message has waited so long for it (topic: ``flush.ms``)."""

    log_flush_scheduler_interval_ms: Positive = 500
    """How often partitions are looked over for a flush that is due."""

    log_flush_offset_checkpoint_interval_ms: Positive = 60_000
    """How often it is noted up to where partitions are flushed; a start after a crash verifies
    what lies behind that."""

    replica_high_watermark_checkpoint_interval_ms: Positive = 5_000
    """How often the high watermarks of partitions are written to the data directories."""

    log_retention_ms: Limit = WEEK_MS
    """A segment whose newest record is older is deleted (topic: ``retention.ms``)."""

    log_retention_bytes: Limit = -1
    """The oldest segments of a partition above this size are deleted
    (topic: ``retention.bytes``)."""

    log_retention_check_interval_ms: Positive = 300_000
    """How often segments are looked over for retention."""

    log_flush_before_expose: bool = False
    """True: a message is shown to consumers after it is flushed (by the two settings above), and a
    producer with ``acks=all`` is answered then (topic: ``flush.before.expose``)."""

    log_message_timestamp_type: Literal["CreateTime", "LogAppendTime"] = "CreateTime"
    """Whose clock the timestamps of records are from: the producer's, or the broker's when it
    appends (topic: ``message.timestamp.type``)."""

    log_message_timestamp_before_max_ms: Annotated[int, Field(ge=0, le=LONG_MAX)] = LONG_MAX
    """A batch whose first timestamp is further behind the broker's clock is refused
    (topic: ``message.timestamp.before.max.ms``)."""

    log_message_timestamp_after_max_ms: Annotated[int, Field(ge=0, le=LONG_MAX)] = LONG_MAX
    """A batch with a timestamp further ahead of the broker's clock is refused. Kafka 4 has an hour
    here, Kafka 3 no limit (topic: ``message.timestamp.after.max.ms``)."""

    message_max_bytes: Annotated[int, Field(ge=0, le=2**31 - 1)] = 1_048_588
    """The largest record batch accepted (topic: ``max.message.bytes``)."""

    message_max_bytes_unpacked: bool = False
    """Whether ``max.message.bytes`` also bounds what a compressed batch holds when it is unpacked,
    where the broker does that (``record.validation=full``, compacted topics, limits on timestamps,
    ``compression.type``). false, as in Kafka: there it may hold 16 times that, and 16 MiB at
    least."""

    record_validation: RecordValidation = "lengths"
    """Whether records are what they claim to be. ``lengths``: the records of batches that are not
    compressed are walked over (those of the first 20 KB with the compiled kernel, ``make kernel``;
    without it the first one), those of compressed ones are counted against their bytes. ``full``:
    every batch is unpacked, and every record checked. ``header``: the header and the CRC alone.
    What is not right is INVALID_RECORD, with the place of the record."""

    min_insync_replicas: Annotated[int, Field(ge=1, le=2**31 - 1)] = 1
    """So many replicas have a record before a producer with ``acks=all`` is answered; a partition
    has one, so this changes nothing (topic: ``min.insync.replicas``)."""

    compression_type: Literal["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"] = (
        "producer"
    )
    """The codec that batches are stored in; ``producer``: as they came
    (topic: ``compression.type``)."""

    compression_gzip_level: Annotated[int, AfterValidator(_gzip_level)] = -1
    """How hard gzip tries, 1 to 9, -1: its default (topic: ``compression.gzip.level``)."""

    compression_zstd_level: Annotated[int, Field(ge=-131_072, le=22)] = 3
    """How hard zstd tries (topic: ``compression.zstd.level``)."""

    producer_id_expiration_ms: Positive = 86_400_000
    """The sequence memory of an idempotent producer that is idle so long is forgotten."""

    fetch_max_bytes: Annotated[int, Field(ge=1024, le=2**31 - 1)] = 57_671_680
    """The most bytes that one fetch is answered with, whatever it asks for."""

    max_incremental_fetch_session_cache_slots: Annotated[int, Field(ge=0, le=10_000_000)] = 1000
    """Readers for which the broker remembers what they read, so that neither requests nor answers
    name unchanged partitions (fetch sessions). Others name all of them each time."""

    socket_request_max_bytes: Annotated[int, Field(ge=64, le=2**31 - 1)] = 104_857_600
    """A request that announces more bytes closes its connection."""

    socket_request_small_max_bytes: Annotated[int, Field(ge=64, le=2**31 - 1)] = 2_097_152
    """The same for requests other than Produce and SyncGroup: they are decoded into many small
    objects, which take some dozen times their size."""

    queued_max_request_bytes: Limit = 536_870_912
    """What all requests that have not arrived as a whole yet may take together; one more request
    may go beyond it. Connections beyond that wait."""

    request_arrival_max_ms: Positive = 120_000
    """A connection whose request is not whole so long after its first byte is closed."""

    connections_max_idle_ms: Positive = 600_000
    """A connection on which nothing moved for so long is closed."""

    max_connections: Positive = 10_000
    """Connections beyond this number, of all listeners together, are closed at once. Half of the
    descriptors that the process may have (``ulimit -n``), less 32, is the most."""

    max_connections_per_ip: Positive = 2**31 - 1
    """The same for the connections from one address."""

    offsets_topic_num_partitions: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Partitions of ``__consumer_offsets``, fixed when it is created. One here, Kafka has 50."""

    offset_metadata_max_bytes: Annotated[int, Field(ge=0, le=32_767)] = 4096
    """The longest text that may go with a committed offset."""

    offsets_retention_minutes: Annotated[int, Field(ge=1, le=2**31 - 1)] = 10_080
    """Committed offsets of a group that has been empty for so long are forgotten; so are those of a
    topic that a group of consumers has not committed on for so long and is not subscribed to."""

    offsets_retention_check_interval_ms: Positive = 600_000
    """How often groups are looked over for offsets to be forgotten."""

    group_min_session_timeout_ms: Annotated[int, Field(ge=0, le=2**31 - 1)] = 6_000
    """The shortest session timeout that a member of a group may ask for."""

    group_max_session_timeout_ms: Annotated[int, Field(ge=0, le=2**31 - 1)] = 1_800_000
    """The longest session timeout that a member of a group may ask for."""

    group_initial_rebalance_delay_ms: Annotated[int, Field(ge=0, le=2**31 - 1)] = 3_000
    """How long the first rebalance of an empty group waits for more members; each that comes makes
    it wait again, up to the rebalance timeout. 0 answers the first member at once."""

    group_max_size: Annotated[int, Field(ge=1, le=2**31 - 1)] = 10_000
    """The most members of a group. (Kafka has no limit by default.)"""

    metrics_port: Annotated[int, Field(ge=-1, le=65535)] = -1
    """The port of ``/metrics`` (Prometheus) and ``/health`` over HTTP; -1: none, 0: a free one."""

    metrics_host: str = "127.0.0.1"
    """The address that ``metrics.port`` is on. On loopback it needs no log-in; elsewhere it
    speaks TLS with ``ssl.keystore.location`` and asks for one of the broker's users (HTTP
    Basic), or needs ``listeners.allow.plaintext``."""

    metrics_max_topics: Annotated[int, Field(ge=0, le=10_000)] = 200
    """Topics that are counted by themselves in the metrics; what comes later is ``(other)``."""

    log_format: Literal["text", "json"] = "text"
    """How the broker writes its own log to standard error: lines of text, or one JSON object a
    line."""

    enable_zookeeper: bool = True
    """False: this broker is a cluster of its own and needs no ZooKeeper (tests, laptops)."""

    zookeeper_connect: str = "127.0.0.1:2181"
    """``host:port[,host:port...][/chroot]`` of the ZooKeeper ensemble of the cluster."""

    zookeeper_session_timeout_ms: Annotated[int, Field(ge=1000, le=3_600_000)] = 6000
    """Silence after which ZooKeeper gives up a broker, and its registration goes."""

    zookeeper_connection_timeout_ms: Annotated[int, Field(ge=100, le=3_600_000)] = 15_000
    """How long a starting broker waits for ZooKeeper."""

    zookeeper_user: str = ""
    """The user of the broker in ZooKeeper (its ``digest`` scheme); empty: none."""

    zookeeper_password: str = ""
    """The password of ``zookeeper.user``. Parts that read no broker settings (mirrors, consumers,
    commands) take both from ``TALLYMARK_ZOOKEEPER_USER`` and ``TALLYMARK_ZOOKEEPER_PASSWORD``."""

    zookeeper_set_acl: bool = True
    """Whether, where there is a ``zookeeper.user``, what brokers write in ZooKeeper is closed to
    clients without these credentials: they may read it, but neither change it nor see the users'
    credentials. A broker that starts closes what was open before."""

    zookeeper_allow_open: bool = False
    """Whether ``authorizer.enable`` may be on while ZooKeeper, which holds users and access-control
    lists, is open to every client: only where nothing but the brokers can reach it."""

    def listening(self) -> tuple[Listener, ...]:
        """The listeners: those of ``listeners``, or the one of ``host.name`` and ``port``."""
        if not self.listeners:
            return (Listener("PLAINTEXT", "PLAINTEXT", self.host_name, self.port),)
        protocols = parse_protocol_map(self.listener_security_protocol_map)
        return parse_listeners(self.listeners, protocols)

    def advertised(self) -> tuple[Listener, ...]:
        """The addresses that clients get in place of the listeners' own, by the listener's name."""
        if self.advertised_listeners:
            protocols = parse_protocol_map(self.listener_security_protocol_map)
            return parse_listeners(self.advertised_listeners, protocols)
        if self.listeners or not (self.advertised_host_name or self.advertised_port):
            return ()
        host, port = self.advertised_host_name or self.host_name, self.advertised_port
        return (Listener("PLAINTEXT", "PLAINTEXT", host, port),)

    @model_validator(mode="after")
    def _who_closes_can_open(self) -> Self:
        asked = "zookeeper_set_acl" in self.model_fields_set and self.zookeeper_set_acl
        if asked and not (self.zookeeper_user or Access.from_environment().user):
            raise ValueError("zookeeper.set.acl needs zookeeper.user and zookeeper.password")
        return self

    @model_validator(mode="after")
    def _lists_are_in_a_place_that_is_closed(self) -> Self:
        if not (self.authorizer_enable and self.enable_zookeeper) or self.zookeeper_allow_open:
            return self
        known = self.zookeeper_user or Access.from_environment().user
        if not (known and self.zookeeper_set_acl):
            raise ValueError(
                "authorizer.enable: users and access-control lists are in ZooKeeper, where whoever "
                "reaches it can give himself every right; set zookeeper.user and "
                "zookeeper.password (and leave zookeeper.set.acl on), or say "
                "zookeeper.allow.open=true if nobody but the brokers reaches it"
            )
        return self

    @model_validator(mode="after")
    def _clients_can_connect(self) -> Self:
        if not self.listeners and self.host_name in WILDCARDS and not self.advertised_host_name:
            raise ValueError(f"host.name={self.host_name} needs advertised.host.name")
        endpoints(self.listening(), self.advertised())
        return self

    @model_validator(mode="after")
    def _listeners_are_secure(self) -> Self:
        for listener in self.listening():
            if listener.tls and not self.ssl_keystore_location:
                raise ValueError(f"{listener} needs ssl.keystore.location")
            if not (listener.tls or self.listeners_allow_plaintext) and off_loopback(listener):
                raise ValueError(
                    f"{listener} is reached from other machines without TLS: use SSL or SASL_SSL, "
                    "or say listeners.allow.plaintext=true"
                )
        return self

    @model_validator(mode="after")
    def _tokens_can_be_checked(self) -> Self:
        if OAUTHBEARER not in split(self.sasl_enabled_mechanisms):
            return self
        if not self.sasl_oauthbearer_jwks_endpoint_url:
            raise ValueError("OAUTHBEARER needs sasl.oauthbearer.jwks.endpoint.url")
        try:
            check_oauth_url(self.sasl_oauthbearer_jwks_endpoint_url)
        except ValueError as error:
            raise ValueError(f"sasl.oauthbearer.jwks.endpoint.url: {error}") from None
        return self

    @model_validator(mode="after")
    def _there_is_a_folder(self) -> Self:
        if not self.log_dirs:
            raise ValueError("log.dirs names no folder")
        return self
