"""What each route works with: the registry as the caller may see it, and who the caller is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from tallymark_schema_registry.access.authorized import authorized
from tallymark_schema_registry.access.log_in import principal_in
from tallymark_schema_registry.node.registry import Registry
from tallymark_schema_registry.web.responses import Profile


@dataclass(slots=True)
class Served:
    """What the application serves; ``app.state.served``. ``cluster_id`` is what
    ``/v1/metadata/id`` says of the Kafka cluster; ``waiting``: how many requests wait for a
    change."""

    registry: Registry
    profile: Profile
    cluster_id: str
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """One request. ``registry`` raises what its caller may not do or see."""

    request: Request
    registry: Registry
    profile: Profile
    by: str

    @property
    def client(self) -> str:
        """The address that it comes from."""
        return self.request.client.host if self.request.client else ""


def served_by(request: Request) -> Served:
    """What the application of a request serves."""
    served = request.app.state.served
    assert isinstance(served, Served)
    return served


async def _call(request: Request) -> Call:
    served = served_by(request)
    principal = principal_in(request.scope)
    registry = authorized(served.registry, principal)
    return Call(request, registry, served.profile, principal.name)


Caller = Annotated[Call, Depends(_call)]
