"""The changes of an administrator's request, as lines of the trail. Pure.

For each API that changes something, a function from request and answer to :class:`Change` s: the
resource, its state before, the requested state, and the result. :func:`known_before` reads the
state before, when the request arrives. No function reads a secret: of credentials a line has the
mechanism and the number of iterations, of settings with a secret the name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tallymark.broker.metadata.image import TopicImage
from tallymark.broker.security.users import MECHANISM_OF
from tallymark.broker.settings.names import is_secret
from tallymark.broker.state import BrokerState
from tallymark.errors import KafkaError
from tallymark.protocol.acls.text import STORED_NAMES
from tallymark.protocol.acls.words import ResourceType, stored_word
from tallymark.protocol.api import ApiKey
from tallymark.trail import NO_ERROR

HIDDEN: Final = "(hidden)"


class Change(NamedTuple):
    """One line, without the user; ``code`` is that of Kafka's errors."""

    kind: str
    name: str
    before: Any = None
    after: Any = None
    code: int = 0
    message: str | None = None


def result_of(code: int) -> str:
    """The name of an error code."""
    return NO_ERROR if not code else KafkaError(code, "").name


def known_before(state: BrokerState, api: ApiKey, request: Any) -> Mapping[tuple[str, str], Any]:
    """(kind, name) -> the state before the request is served, for each resource that it names."""
    reader = _BEFORE.get(api)
    return {} if reader is None else dict(reader(state, request))


def changes(
    api: ApiKey, request: Any, answer: Any, before: Mapping[tuple[str, str], Any]
) -> list[Change]:
    """One change for each resource that the request names."""
    if getattr(request, "validate_only", False):
        return []
    found = _CHANGES[api](request, answer)
    return [
        change._replace(before=before.get((change.kind, change.name), change.before))
        for change in found
    ]


# -- topics and groups -----------------------------------------------------------------------


def _topic(topic: TopicImage) -> dict[str, Any]:
    return {"partitions": len(topic.partitions), "configs": _shown(topic.configs)}


def _topics_before(state: BrokerState, names: Sequence[str]) -> Iterator[tuple[Any, Any]]:
    for name in names:
        topic = state.image.topics.get(name)
        if topic is not None:
            yield ("topic", name), _topic(topic)


def _doomed_before(state: BrokerState, request: Any) -> Iterator[tuple[Any, Any]]:
    by_id = state.image.names_by_id
    ids = [by_id.get(each.topic_id, "") for each in request.topics if each.name is None]
    names = [each.name for each in request.topics if each.name is not None]
    return _topics_before(state, [*request.topic_names, *names, *ids])


def _create_topics(request: Any, answer: Any) -> Iterator[Change]:
    outcome = {each.name: each for each in answer.topics}
    for topic in request.topics:
        became = outcome.get(topic.name)
        count = topic.num_partitions if not topic.assignments else len(topic.assignments)
        if became is not None and became.num_partitions > 0:
            count = became.num_partitions
        configs = _shown({each.name: each.value for each in topic.configs})
        yield _change("topic", topic.name, became, {"partitions": count, "configs": configs})


def _delete_topics(request: Any, answer: Any) -> Iterator[Change]:
    for became in answer.responses:
        yield _change("topic", became.name or str(became.topic_id), became, None)


def _records_before(state: BrokerState, request: Any) -> Iterator[tuple[Any, Any]]:
    for topic in request.topics:
        for each in topic.partitions:
            led = state.partitions.get(topic.name, each.partition_index)
            if led is not None:
                where = f"{topic.name}-{each.partition_index}"
                yield ("partition", where), {"start_offset": led.log.start_offset}


def _delete_records(request: Any, answer: Any) -> Iterator[Change]:
    for topic in answer.topics:
        for each in topic.partitions:
            after = None if each.error_code else {"start_offset": each.low_watermark}
            yield _change("partition", f"{topic.name}-{each.partition_index}", each, after)


def _create_partitions(request: Any, answer: Any) -> Iterator[Change]:
    counts = {each.name: each.count for each in request.topics}
    for each in answer.results:
        yield _change("topic", each.name, each, {"partitions": counts.get(each.name)})


def _moves_before(state: BrokerState, request: Any) -> Iterator[tuple[Any, Any]]:
    for topic in request.topics:
        held = state.image.topics.get(topic.name)
        for each in topic.partitions:
            index = each.partition_index
            if held is not None and 0 <= index < len(held.partitions):
                replicas = list(held.partitions[index].replicas)
                yield ("partition", f"{topic.name}-{index}"), {"replicas": replicas}


def _reassign(request: Any, answer: Any) -> Iterator[Change]:
    became = {
        (topic.name, each.partition_index): each
        for topic in answer.responses
        for each in topic.partitions
    }
    for topic in request.topics:
        for each in topic.partitions:
            index = each.partition_index
            to = None if each.replicas is None else list(each.replicas)
            after = {"move": "cancelled"} if to is None else {"replicas": to}
            result = became.get((topic.name, index), answer)
            yield _change("partition", f"{topic.name}-{index}", result, after)


def _leads_before(state: BrokerState, request: Any) -> Iterator[tuple[Any, Any]]:
    asked = request.topic_partitions
    for name, topic in state.image.topics.items() if asked is None else ():
        for index, part in enumerate(topic.partitions):
            yield ("partition", f"{name}-{index}"), {"leader": part.leader}
    for each in asked or ():
        held = state.image.topics.get(each.topic)
        for index in each.partitions:
            if held is not None and 0 <= index < len(held.partitions):
                leader = held.partitions[index].leader
                yield ("partition", f"{each.topic}-{index}"), {"leader": leader}


_ELECTIONS: Final = {0: "preferred", 1: "unclean"}


def _elect(request: Any, answer: Any) -> Iterator[Change]:
    """Of all partitions: one line where all went well, then the answer names none."""
    after = {"election": _ELECTIONS.get(request.election_type, str(request.election_type))}
    if not answer.replica_election_results:
        name = "(all)" if request.topic_partitions is None else "(none)"
        yield _change("partition", name, answer, after)
    for topic in answer.replica_election_results:
        for each in topic.partition_result:
            yield _change("partition", f"{topic.topic}-{each.partition_id}", each, after)


def _delete_groups(request: Any, answer: Any) -> Iterator[Change]:
    for each in answer.results:
        yield _change("group", each.group_id, each, None)


def _offset_delete(request: Any, answer: Any) -> Iterator[Change]:
    if answer.error_code or not answer.topics:
        yield _change("group", request.group_id, answer, None)
    for topic in answer.topics:
        for each in topic.partitions:
            where = {"offset_of": f"{topic.name}-{each.partition_index}"}
            yield _change("group", request.group_id, each, None)._replace(before=where)


# -- settings --------------------------------------------------------------------------------

_KINDS: Final = {2: "topic", 4: "broker", 8: "broker-logger", 16: "client-metrics", 32: "group"}
_OPERATIONS: Final = {0: "set", 1: "delete", 2: "append", 3: "subtract"}


def _configs_before(state: BrokerState, request: Any) -> Iterator[tuple[Any, Any]]:
    records = state.security.records
    for resource in request.resources:
        kind, name = _KINDS.get(resource.resource_type, "?"), resource.resource_name
        topic = state.image.topics.get(name)
        if kind == "topic" and topic is not None:
            yield (kind, name), _shown(topic.configs)
        elif kind == "broker":
            yield (kind, name), _shown(records.brokers.get(name or "<default>", {}))
        elif kind == "group":
            yield (kind, name), _shown(records.groups.get(name, {}))


def _alter_configs(request: Any, answer: Any) -> Iterator[Change]:
    for resource, became in zip(request.resources, answer.responses, strict=True):
        after = _shown({each.name: each.value for each in resource.configs})
        kind = _KINDS.get(resource.resource_type, "?")
        yield _change(kind, resource.resource_name, became, {"replaced_by": after})


def _incremental(request: Any, answer: Any) -> Iterator[Change]:
    for resource, became in zip(request.resources, answer.responses, strict=True):
        after: dict[str, Any] = {}
        for each in resource.configs:
            how = _OPERATIONS.get(each.config_operation, str(each.config_operation))
            after.setdefault(how, {}).update(_shown({each.name: each.value}))
        kind = _KINDS.get(resource.resource_type, "?")
        yield _change(kind, resource.resource_name, became, after)


def _shown(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: HIDDEN if value and is_secret(name.lower()) else value
        for name, value in values.items()
    }


# -- users, access-control lists, quotas -------------------------------------------------------


def _users_before(state: BrokerState, request: Any) -> Iterator[tuple[Any, Any]]:
    for name in {each.name for each in (*request.deletions, *request.upsertions)}:
        held = state.security.users.credentials.get(name, {})
        yield (
            ("user", name),
            {mechanism: {"iterations": one.iterations} for mechanism, one in held.items()},
        )


def _alter_users(request: Any, answer: Any) -> Iterator[Change]:
    for became in answer.results:
        after: dict[str, Any] = {}
        for each in request.deletions:
            if each.name == became.user:
                after[_mechanism(each.mechanism)] = None
        for each in request.upsertions:
            if each.name == became.user:
                after[_mechanism(each.mechanism)] = {"iterations": each.iterations}
        yield _change("user", became.user, became, after)


def _mechanism(number: int) -> str:
    return MECHANISM_OF.get(number, str(number))


def _create_acls(request: Any, answer: Any) -> Iterator[Change]:
    for each, became in zip(request.creations, answer.results, strict=True):
        entry = _acl(each, each.resource_pattern_type)
        yield _change(_acl_kind(each.resource_type), each.resource_name, became, entry)


def _delete_acls(request: Any, answer: Any) -> Iterator[Change]:
    for wanted, result in zip(request.filters, answer.filter_results, strict=True):
        if result.error_code or not result.matching_acls:
            name = wanted.resource_name_filter or "*"
            yield _change(_acl_kind(wanted.resource_type_filter), name, result, None)
        for each in result.matching_acls:
            kind = _acl_kind(each.resource_type)
            entry = _acl(each, each.pattern_type)
            yield _change(kind, each.resource_name, each, None)._replace(before=entry)


def _acl(each: Any, pattern: int) -> dict[str, Any]:
    return {
        "principal": each.principal,
        "host": each.host,
        "operation": STORED_NAMES.get(each.operation, str(each.operation)),
        "permission": {2: "Deny", 3: "Allow"}.get(each.permission_type, str(each.permission_type)),
        "pattern": {3: "literal", 4: "prefixed"}.get(pattern, str(pattern)),
    }


def _acl_kind(number: int) -> str:
    try:
        return "acl of " + stored_word(ResourceType(number).name)
    except ValueError:
        return "acl"


def _alter_quotas(request: Any, answer: Any) -> Iterator[Change]:
    for entry, became in zip(request.entries, answer.entries, strict=True):
        parts = [f"{each.entity_type}={each.entity_name or '<default>'}" for each in entry.entity]
        after = {each.key: None if each.remove else each.value for each in entry.ops}
        yield _change("quota", ",".join(parts), became, after)


def _features_before(state: BrokerState, request: Any) -> Iterator[tuple[Any, Any]]:
    for each in request.feature_updates:
        yield ("feature", each.feature), {"level": state.image.features.level(each.feature)}


def _update_features(request: Any, answer: Any) -> Iterator[Change]:
    for each in request.feature_updates:
        yield _change("feature", each.feature, answer, {"level": each.max_version_level})


# --------------------------------------------------------------------------------------------


def _change(kind: str, name: str, became: Any, after: Any) -> Change:
    code = 0 if became is None else became.error_code
    return Change(kind, name, None, after, code, getattr(became, "error_message", None) or None)


_BEFORE: Final[dict[ApiKey, Callable[[BrokerState, Any], Iterator[tuple[Any, Any]]]]] = {
    ApiKey.DELETE_TOPICS: _doomed_before,
    ApiKey.DELETE_RECORDS: _records_before,
    ApiKey.CREATE_PARTITIONS: lambda state, request: _topics_before(
        state, [each.name for each in request.topics]
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _moves_before,
    ApiKey.ELECT_LEADERS: _leads_before,
    ApiKey.ALTER_CONFIGS: _configs_before,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _configs_before,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _users_before,
    ApiKey.UPDATE_FEATURES: _features_before,
}
_CHANGES: Final[dict[ApiKey, Callable[[Any, Any], Iterator[Change]]]] = {
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.DELETE_RECORDS: _delete_records,
    ApiKey.CREATE_PARTITIONS: _create_partitions,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _reassign,
    ApiKey.ELECT_LEADERS: _elect,
    ApiKey.CREATE_ACLS: _create_acls,
    ApiKey.DELETE_ACLS: _delete_acls,
    ApiKey.ALTER_CONFIGS: _alter_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _incremental,
    ApiKey.DELETE_GROUPS: _delete_groups,
    ApiKey.OFFSET_DELETE: _offset_delete,
    ApiKey.ALTER_CLIENT_QUOTAS: _alter_quotas,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _alter_users,
    ApiKey.UPDATE_FEATURES: _update_features,
}
TRAILED: Final = frozenset(_CHANGES)
"""The APIs whose requests are recorded."""
