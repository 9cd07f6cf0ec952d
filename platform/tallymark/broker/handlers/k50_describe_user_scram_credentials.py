"""k50 DescribeUserScramCredentials: users with SCRAM credentials, and their mechanisms (KIP-554).

Served 0. Kept: no users, or null, means all; needs DESCRIBE on the cluster; salts and keys are
never returned; a user without credentials is RESOURCE_NOT_FOUND, one that is requested twice
DUPLICATE_RESOURCE.
"""

from __future__ import annotations

from collections import Counter

from tallymark.broker.requests.registry import Call, register
from tallymark.broker.security.authorizer import require
from tallymark.broker.security.users import NUMBERS, Users
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.acls.words import CLUSTER_NAME, Operation, ResourceType
from tallymark.protocol.messages import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResponseCredentialInfo,
    DescribeUserScramCredentialsResponseResult,
)


def handle(
    state: BrokerState, request: DescribeUserScramCredentialsRequest, call: Call
) -> DescribeUserScramCredentialsResponse:
    """From memory."""
    try:
        require(
            state.authorizer,
            call.connection,
            Operation.DESCRIBE,
            ResourceType.CLUSTER,
            CLUSTER_NAME,
        )
    except KafkaError as error:
        return DescribeUserScramCredentialsResponse(error_code=error.code, error_message=str(error))
    users = state.security.users
    asked = Counter(user.name for user in request.users or ())
    names = asked or Counter(sorted(users.credentials))
    return DescribeUserScramCredentialsResponse(
        results=[_result(users, name, count) for name, count in names.items()]
    )


def _result(users: Users, name: str, asked: int) -> DescribeUserScramCredentialsResponseResult:
    held = users.credentials.get(name)
    if asked > 1 or held is None:
        code = CODES["DUPLICATE_RESOURCE" if asked > 1 else "RESOURCE_NOT_FOUND"]
        error = KafkaError(code, name)
        return DescribeUserScramCredentialsResponseResult(
            user=name, error_code=error.code, error_message=str(error)
        )
    return DescribeUserScramCredentialsResponseResult(
        user=name,
        credential_infos=[
            DescribeUserScramCredentialsResponseCredentialInfo(
                mechanism=NUMBERS[mechanism], iterations=credential.iterations
            )
            for mechanism, credential in held.items()
        ],
    )


register(DescribeUserScramCredentialsRequest, handle)
