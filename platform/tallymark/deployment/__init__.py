"""One settings file describes a deployment: clusters, mirrors, registry, store, lake.

Every process of Tallymark reads the same file; audit edges are derived from it. Start with
:mod:`tallymark.deployment.model` (the shape) and :func:`load` (where the file is looked for).
"""

from tallymark.deployment.audit import AlertSettings, AuditedGroup, AuditSettings
from tallymark.deployment.load import dump_toml, find_settings, load
from tallymark.deployment.model import (
    BrokerAddress,
    Cluster,
    ClusterSecurity,
    DashboardSettings,
    Deployment,
    LakeSettings,
    Mirror,
    RegistrySettings,
    ZooKeeperSettings,
)

__all__ = [
    "AlertSettings",
    "AuditSettings",
    "AuditedGroup",
    "BrokerAddress",
    "Cluster",
    "ClusterSecurity",
    "DashboardSettings",
    "Deployment",
    "LakeSettings",
    "Mirror",
    "RegistrySettings",
    "ZooKeeperSettings",
    "dump_toml",
    "find_settings",
    "load",
]
