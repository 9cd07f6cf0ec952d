"""k30 CreateAcls: add access-control entries.

Served 1-3.

* v1 patterns of names (KIP-290); v2 flexible; v3 resources of type user: there are none

Kept: needs ALTER on the cluster; every entry succeeds or fails by itself; one that exists already
succeeds; where no lists are in force the answer is SECURITY_DISABLED. The answer comes when this
broker uses the entries; other brokers use them a moment later.
"""

from __future__ import annotations

from tallymark.broker.requests.registry import Call, register
from tallymark.broker.security.authorizer import require
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.acls.entry import Acl
from tallymark.protocol.acls.filter import checked_acl
from tallymark.protocol.acls.words import CLUSTER_NAME, Operation, ResourceType
from tallymark.protocol.messages import (
    CreateAclsRequest,
    CreateAclsRequestCreation,
    CreateAclsResponse,
    CreateAclsResponseResult,
)


async def handle(state: BrokerState, request: CreateAclsRequest, call: Call) -> CreateAclsResponse:
    """Store all valid entries at once."""
    who, security = call.connection, state.security
    try:
        require(state.authorizer, who, Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)
        if not security.enabled:
            raise KafkaError(CODES["SECURITY_DISABLED"], "authorizer.enable is false")
    except KafkaError as error:
        return CreateAclsResponse(results=[_result(error)] * len(request.creations))
    judged = [_judge(creation) for creation in request.creations]
    good = [acl for acl in judged if isinstance(acl, Acl)]
    failed: KafkaError | None = None
    if good:
        try:
            await security.change(lambda: security.store.change_acls(add=good))
        except KafkaError as error:
            failed = error
    return CreateAclsResponse(
        results=[_result(failed if isinstance(each, Acl) else each) for each in judged]
    )


def _judge(creation: CreateAclsRequestCreation) -> Acl | KafkaError:
    try:
        return checked_acl(
            creation.resource_type,
            creation.resource_name,
            creation.resource_pattern_type,
            creation.principal,
            creation.host,
            creation.operation,
            creation.permission_type,
        )
    except KafkaError as error:
        return error


def _result(error: KafkaError | None) -> CreateAclsResponseResult:
    if error is None:
        return CreateAclsResponseResult()
    return CreateAclsResponseResult(error_code=error.code, error_message=str(error))


register(CreateAclsRequest, handle)
