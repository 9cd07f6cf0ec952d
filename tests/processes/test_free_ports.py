"""Ports for servers that will be started: free, different, and taken by no outgoing connection."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tallymark.processes import free_ports as module
from tallymark.processes.free_ports import free_ports, is_taken

HOST = "127.0.0.1"


def test_no_outgoing_connection_gets_a_port_that_was_chosen() -> None:
    """A broker did not start: "the port is taken", once in some runs of all tests. The port was
    chosen as the system chooses those of outgoing connections, of which there are thousands."""
    low, _ = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    assert all(module.LOWEST <= port < low for port in free_ports(50))


def test_ports_are_all_different_and_no_process_listens_there() -> None:
    found = free_ports(200)
    assert len(set(found)) == 200
    assert not any(is_taken(HOST, port) for port in found)


def test_a_port_that_is_taken_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    (taken, behind) = free_ports(2)
    with socket.create_server((HOST, taken)):
        monkeypatch.setattr(module, "_candidates", lambda _: iter([taken, behind]))
        assert free_ports(1) == [behind]


def test_where_the_system_gives_any_port_it_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_first_of_the_system", lambda: 1024)
    assert len(set(free_ports(5))) == 5
