"""k32 DescribeConfigs: the configs of topics, brokers, loggers and groups, and their sources.

Served 1-4.

* v1 where a value comes from, and its synonyms (KIP-226); v3 types and documentation (KIP-569)
* v4 flexible

Kept: topics, this broker, its loggers (KIP-412), groups; names to filter by, null or none for all;
secrets have no value. The empty name means all brokers: what was set for all
of them at run time. Simplified: client metrics have no configs here and are INVALID_REQUEST.
"""

from __future__ import annotations

from collections.abc import Sequence

from tallymark.broker.requests.config_resources import (
    Resource,
    ResourceKind,
    check_group,
    check_own_broker,
    topic_of,
)
from tallymark.broker.requests.registry import Call, register
from tallymark.broker.settings.broker_loggers import levels
from tallymark.broker.settings.config_describe import (
    Described,
    describe_all_brokers,
    describe_broker,
    describe_group,
    describe_loggers,
    describe_topic,
)
from tallymark.broker.state import BrokerState
from tallymark.broker.yielding import in_turns
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.acls.words import Operation
from tallymark.protocol.messages import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    DescribeConfigsResponse,
    DescribeConfigsResponseConfig,
    DescribeConfigsResponseResult,
    DescribeConfigsResponseSynonym,
)


async def handle(
    state: BrokerState, request: DescribeConfigsRequest, call: Call
) -> DescribeConfigsResponse:
    """Each resource by itself. One that is named twice gets an error: otherwise a small request
    could cause a huge answer."""
    seen: set[tuple[int, str]] = set()
    results: list[DescribeConfigsResponseResult] = []
    async for asked in in_turns(request.resources):
        again = (asked.resource_type, asked.resource_name) in seen
        seen.add((asked.resource_type, asked.resource_name))
        results.append(_result(state, request, asked, call, again))
    return DescribeConfigsResponse(results=results)


def _result(
    state: BrokerState,
    request: DescribeConfigsRequest,
    asked: DescribeConfigsRequestResource,
    call: Call,
    again: bool,
) -> DescribeConfigsResponseResult:
    code, message = 0, None
    found: Sequence[Described] = ()
    try:
        if again:
            raise KafkaError(
                CODES["INVALID_REQUEST"], f"{asked.resource_name[:80]!r} is named twice"
            )
        found = _describe(state, asked, call)
    except KafkaError as error:
        code, message = error.code, str(error)
    wanted = asked.configuration_keys or None
    return DescribeConfigsResponseResult(
        error_code=code,
        error_message=message,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
        configs=[
            _config(config, request) for config in found if wanted is None or config.name in wanted
        ],
    )


def _describe(
    state: BrokerState, asked: DescribeConfigsRequestResource, call: Call
) -> Sequence[Described]:
    resource = Resource.of(asked.resource_type, asked.resource_name)
    resource.require(state, call, Operation.DESCRIBE_CONFIGS)
    if resource.kind is ResourceKind.TOPIC:
        configs = topic_of(state, resource.name).configs
        return describe_topic(state.static_settings, configs, state.dynamic)
    if resource.kind is ResourceKind.GROUP:
        check_group(resource.name)
        return describe_group(state.security.records.groups.get(resource.name, {}))
    if resource.kind is ResourceKind.BROKER and not resource.name:
        return describe_all_brokers(state.dynamic)
    check_own_broker(state, resource.name)
    if resource.kind is ResourceKind.BROKER_LOGGER:
        return describe_loggers(levels())
    return describe_broker(state.static_settings, state.dynamic)


def _config(config: Described, request: DescribeConfigsRequest) -> DescribeConfigsResponseConfig:
    return DescribeConfigsResponseConfig(
        name=config.name,
        value=config.value,
        read_only=config.read_only,
        config_source=config.source,
        is_sensitive=config.sensitive,
        synonyms=[
            DescribeConfigsResponseSynonym(name=item.name, value=item.value, source=item.source)
            for item in (config.synonyms if request.include_synonyms else ())
        ],
        config_type=config.type,
        documentation=config.doc if request.include_documentation else None,
    )


register(DescribeConfigsRequest, handle)
