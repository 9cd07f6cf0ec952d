"""A part of a deployment: some clusters, and all that is mirrored into them. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from tallymark.deployment import Deployment
from tallymark.errors import UserError


def only_clusters(deployment: Deployment, names: Iterable[str]) -> Deployment:
    """The deployment of the clusters ``names`` and of those they are mirrored from, directly or
    not; the whole one without names. UserError: there is no such cluster.

    The clusters upstream have to be read too: records in an aggregate are claimed where they were
    published, and would have no claim otherwise.
    """
    wanted = set(names)
    if not wanted:
        return deployment
    for name in wanted:
        try:
            deployment.cluster(name)
        except KeyError as error:
            raise UserError(str(error.args[0]), "name one of them") from None
    while True:
        more = {one.source for one in deployment.mirrors if one.target in wanted} - wanted
        if not more:
            break
        wanted |= more
    consumers = tuple(one for one in deployment.audit.consumers if one.cluster in wanted)
    return deployment.model_copy(
        update={
            "clusters": tuple(one for one in deployment.clusters if one.name in wanted),
            "mirrors": tuple(one for one in deployment.mirrors if one.target in wanted),
            "audit": deployment.audit.model_copy(update={"consumers": consumers}),
        }
    )
