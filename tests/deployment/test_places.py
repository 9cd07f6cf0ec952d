"""Addresses that are read without the model are those that the model has."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from project import ROOT

from tallymark.deployment import Deployment, dump_toml
from tallymark.deployment.places import places
from tallymark.processes.supervisor.plan import plan

NAMES = st.sampled_from(["dc1", "dc2", "aggregate", "west"])
PORTS = st.integers(0, 65535)
HOSTS = st.sampled_from(["127.0.0.1", "broker-7.example", "0.0.0.0"])


def table(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Any of the fields, or none."""
    return st.fixed_dictionaries({}, optional=fields)


BROKERS = st.lists(
    st.fixed_dictionaries(
        {"port": PORTS},
        optional={"id": st.integers(0, 9), "host": HOSTS, "advertised_host": HOSTS},
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda broker: broker.get("id", 0),
)
CLUSTERS = st.lists(
    st.fixed_dictionaries(
        {"name": NAMES, "brokers": BROKERS},
        optional={
            "kind": st.just("tallymark"),
            "chroot": st.just("/other"),
            "embedded": st.booleans(),
            "broker_settings": st.just({"log.retention.ms": 1000}),
            "security": table(
                security_protocol=st.sampled_from(["PLAINTEXT", "SSL"]),
                ssl_truststore_location=st.just("ca.pem"),
            ),
        },
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda cluster: cluster["name"],
)
SETTINGS = table(
    name=st.just("here"),
    data_dir=st.just("/srv/tallymark"),
    zookeeper=table(host=HOSTS, port=PORTS, embedded=st.booleans()),
    clusters=CLUSTERS,
    mirrors=st.just([]),
    registry=table(
        host=HOSTS,
        port=PORTS,
        advertised_host=HOSTS,
        embedded=st.booleans(),
        response_profile=st.sampled_from([7, 8]),
    ),
    dashboards=table(
        host=HOSTS,
        port=PORTS,
        advertised_host=HOSTS,
        allow_plaintext=st.booleans(),
        path_prefix=st.sampled_from(["", "/audit", "/tools/audit"]),
        actions=st.booleans(),
        masked_fields=st.just(["email"]),
        snapshot_ms=st.just(5000),
        roles=table(viewer=st.just(["group:staff"]), operator=st.just(["alice"])),
        proxy=table(trusted_peers=st.just(["10.0.0.7"])),
    ),
    security=table(
        ssl_keystore_location=st.sampled_from(["", "web.pem"]),
        users_file=st.just("security.json"),
        allowed_hosts=st.just(["proxy.example"]),
    ),
    audit=st.just({"window_ms": 10000}),
)


def check_same(raw: dict[str, Any]) -> None:
    model, found = Deployment.model_validate(raw), places(raw)
    assert found is not None
    assert plan(found) == plan(model)
    assert found.log_dir == model.log_dir
    assert found.zookeeper.connect == model.zookeeper.connect
    for cluster in model.clusters:
        place = found.cluster(cluster.name)
        assert (place.root, place.bootstrap_servers) == (cluster.root, cluster.bootstrap_servers)
        assert place.secured == (cluster.security.security_protocol != "PLAINTEXT")


@given(SETTINGS)
def test_places_are_those_of_the_model(raw: dict[str, Any]) -> None:
    check_same(raw)


def test_settings_that_up_wrote_and_those_of_compose() -> None:
    check_same({})
    check_same(tomllib.loads(dump_toml(Deployment())))
    check_same(tomllib.loads((ROOT / "deploy/compose/deployment.toml").read_text()))


@pytest.mark.parametrize(
    "raw",
    [
        {"audti": {}},
        {"zookeeper": {"prot": 2181}},
        {"zookeeper": {"port": 65536}},
        {"zookeeper": {"port": True}},
        {"clusters": []} | {"clusters": "dc1"},
        {"clusters": [{"name": "DC 1", "brokers": [{"port": 1}]}]},
        {"clusters": [{"name": "dc1", "brokers": [{}]}]},
        {"clusters": [{"name": "dc1", "kind": "pulsar", "brokers": [{"port": 1}]}]},
        {"registry": 8081},
        {"dashboards": {"host": 7}},
    ],
)
def test_what_is_not_expected_is_left_to_the_model(raw: dict[str, Any]) -> None:
    """The model's error names the setting; nothing is guessed here."""
    assert places(raw) is None
