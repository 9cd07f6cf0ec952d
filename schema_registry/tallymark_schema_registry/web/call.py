"""What each route works with: the caller, and the registry as the caller may see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Depends, Request

from tallymark_schema_registry.access.authorized import authorized
from tallymark_schema_registry.access.grants import Grants, Right
from tallymark_schema_registry.access.log_in import principal_in
from tallymark_schema_registry.catalog.subject import Subject
from tallymark_schema_registry.node.registry import Registry
from tallymark_schema_registry.web.front.remember import remember
from tallymark_schema_registry.web.front.tags import ANYTHING, about, schema, subject
from tallymark_schema_registry.web.metrics.counts import OPERATION
from tallymark_schema_registry.web.responses import Profile

_MOST_USERS: Final = 16
"""Subjects that one answer may depend on."""


@dataclass(slots=True)
class Served:
    """What the application serves; ``app.state.served``. ``cluster_id`` is what
    ``/v1/metadata/id`` says of the Kafka cluster; ``metrics_page`` makes the page of metrics;
    ``waiting``: how many requests wait for a change."""

    registry: Registry
    profile: Profile
    cluster_id: str
    metrics_page: Callable[[], bytes]
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """One request. ``registry`` raises what its caller may not do or see."""

    request: Request
    registry: Registry
    profile: Profile
    by: str
    grants: Grants

    def keep_about(self, *subjects: Subject) -> None:
        """The answer depends on these subjects alone, and the same request may get the same one."""
        remember(self.request, about(*subjects))

    def keep_list(self) -> None:
        """The answer may be given again until anything changes."""
        remember(self.request, (ANYTHING,))

    def keep_schema(self, context: str, schema_id: int) -> None:
        """The answer is a schema that is there until it is permanently deleted, or until nothing
        that has it may be read."""
        tags = [schema(context, schema_id)]
        if not self.grants.all_of(Right.READ, context):
            catalog = served_by(self.request).registry.catalog
            found = catalog.schema(context, schema_id)
            names = {name for name, _ in found.used_by} if found else set[str]()
            if len(names) > _MOST_USERS:
                return
            tags += [subject(Subject(context, name)) for name in names]
        remember(self.request, tags, lasting=True)

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
    setattr(request.state, OPERATION, request.scope["route"].path)
    principal = principal_in(request.scope)
    registry = authorized(served.registry, principal)
    return Call(request, registry, served.profile, principal.name, principal.grants)


Caller = Annotated[Call, Depends(_call)]
