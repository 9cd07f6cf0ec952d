"""Whether the settings of an earlier start agree with the command that is given now. Pure.

Their owner may have changed them since, and the cluster may have changed too (one more broker). The
settings that are there count, as long as they name the same clusters and the command does not
contradict them.
"""

from __future__ import annotations

from collections.abc import Sequence

from tallymark.deployment import Cluster, Deployment
from tallymark_audit.attach.found import ClusterFound
from tallymark_audit.attach.request import AttachRequest, ClusterRequest


def differences(
    there: Deployment, request: AttachRequest, found: Sequence[ClusterFound]
) -> list[str]:
    """The differences between the settings and what is requested and was found, in the order of
    ``request``; one text each; empty: go on with them."""
    names = [cluster.name for cluster in there.clusters]
    wanted = [cluster.name for cluster in request.clusters]
    if names != wanted:
        return [f"its clusters are {', '.join(names)}, not {', '.join(wanted)}"]
    texts = [
        text
        for one, at in zip(request.clusters, found, strict=True)
        for text in _of_cluster(there.cluster(one.name), one, at)
    ]
    copied = {(mirror.source, mirror.target): mirror for mirror in there.mirrors}
    for one in request.downstream:
        mirror = copied.get((request.upstream.name, one.name))
        if mirror is None:
            texts.append(f"it has no mirror from {request.upstream.name} to {one.name}")
        elif request.rename and request.rename != mirror.rename:
            texts.append(f"rename of {mirror.name} is {mirror.rename!r}, not {request.rename!r}")
    return texts + _of_audit(there, request)


def _of_cluster(there: Cluster, request: ClusterRequest, found: ClusterFound) -> list[str]:
    """The address may be any name of the cluster; what counts is which brokers it leads to."""
    if there.embedded:
        return [f"{there.name} is one that tallymark up starts"]
    if request.security is not None and request.security != there.security:
        return [f"the security of {there.name} is another than that of --command-config"]
    known = {(broker.host, broker.port) for broker in there.brokers}
    known |= {(broker.advertised_host, broker.port) for broker in there.brokers}
    here = {(one.host, one.port) for one in request.address.addresses}
    here |= {(one.host, one.port) for one in found.brokers}
    if not known & here:
        where = request.address.bootstrap_servers
        return [f"{there.name} is at {there.bootstrap_servers}, not at {where}"]
    return []


def _of_audit(there: Deployment, request: AttachRequest) -> list[str]:
    found: list[str] = []
    if request.window_ms not in (None, there.audit.window_ms):
        found.append(f"audit.window_ms is {there.audit.window_ms}, not {request.window_ms}")
    if request.topics and request.topics != there.audit.topics:
        found.append(f"audit.topics is {there.audit.topics!r}, not {request.topics!r}")
    if request.data_dir is not None and request.data_dir.absolute() != there.data_dir.absolute():
        found.append(f"data_dir is {there.data_dir}, not {request.data_dir.absolute()}")
    return found
