"""Whether the settings of an earlier start are those that are asked for now. Pure.

Their owner may have changed them since, and the cluster too (a broker more): the settings that are
there count, as long as they speak of the same clusters and nothing that is asked contradicts them.
"""

from __future__ import annotations

from collections.abc import Sequence

from tallymark.deployment import Cluster, Deployment
from tallymark_audit.attach.asked import Asked, ClusterAsked
from tallymark_audit.attach.found import ClusterFound


def differences(there: Deployment, asked: Asked, found: Sequence[ClusterFound]) -> list[str]:
    """What the settings say otherwise than what is asked and was found, in the order of ``asked``;
    one text each; empty: go on with them."""
    names = [cluster.name for cluster in there.clusters]
    wanted = [cluster.name for cluster in asked.clusters]
    if names != wanted:
        return [f"its clusters are {', '.join(names)}, not {', '.join(wanted)}"]
    texts = [
        text
        for one, at in zip(asked.clusters, found, strict=True)
        for text in _of_cluster(there.cluster(one.name), one, at)
    ]
    copied = {(mirror.source, mirror.target): mirror for mirror in there.mirrors}
    for one in asked.downstream:
        mirror = copied.get((asked.upstream.name, one.name))
        if mirror is None:
            texts.append(f"it has no mirror from {asked.upstream.name} to {one.name}")
        elif asked.rename and asked.rename != mirror.rename:
            texts.append(f"rename of {mirror.name} is {mirror.rename!r}, not {asked.rename!r}")
    return texts + _of_audit(there, asked)


def _of_cluster(there: Cluster, asked: ClusterAsked, found: ClusterFound) -> list[str]:
    """The address may be any name of the cluster; what counts is where it leads."""
    if there.embedded:
        return [f"{there.name} is one that tallymark up starts"]
    if asked.security is not None and asked.security != there.security:
        return [f"the security of {there.name} is another than that of --command-config"]
    known = {(broker.host, broker.port) for broker in there.brokers}
    known |= {(broker.advertised_host, broker.port) for broker in there.brokers}
    here = {(one.host, one.port) for one in asked.place.addresses}
    here |= {(one.host, one.port) for one in found.brokers}
    if not known & here:
        where = asked.place.bootstrap_servers
        return [f"{there.name} is at {there.bootstrap_servers}, not at {where}"]
    return []


def _of_audit(there: Deployment, asked: Asked) -> list[str]:
    found: list[str] = []
    if asked.window_ms not in (None, there.audit.window_ms):
        found.append(f"audit.window_ms is {there.audit.window_ms}, not {asked.window_ms}")
    if asked.topics and asked.topics != there.audit.topics:
        found.append(f"audit.topics is {there.audit.topics!r}, not {asked.topics!r}")
    if asked.data_dir is not None and asked.data_dir.absolute() != there.data_dir.absolute():
        found.append(f"data_dir is {there.data_dir}, not {asked.data_dir.absolute()}")
    return found
