"""Cutting what is received into frames, and the memory that this may take."""

from __future__ import annotations

import struct
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.errors import RemoteProtocolError
from tallymark.net.inbox import Inbox
from tallymark.net.limits.request_memory import RequestMemory

SCRATCH = 64


class Peer:
    """An inbox, and what a connection around it would do."""

    def __init__(
        self, memory: RequestMemory | None = None, most: int = 10**6, small: int = 10**6
    ) -> None:
        self.memory = memory or RequestMemory()
        self.frames: list[bytes] = []
        self.inbox = Inbox(
            self, memoryview(bytearray(SCRATCH)), self.memory, most, small, frozenset({0})
        )

    def memory_granted(self) -> None:
        self.inbox.memory_granted()

    def receive(self, data: bytes, piece: int = 10**9) -> int:
        """Take as much as there is memory for; how much that was."""
        taken = 0
        while taken < len(data) and not self.inbox.starved:
            space = self.inbox.space()
            size = min(len(space), len(data) - taken, piece)
            assert size, "an empty buffer would end the connection"
            space[:size] = data[taken : taken + size]
            # The transport still holds the view when the inbox enlarges its memory.
            self.frames += map(bytes, self.inbox.take(size))
            taken += size
        return taken


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


@given(
    st.lists(st.one_of(st.binary(max_size=40), st.integers(50, 40_000).map(bytes)), max_size=8),
    st.integers(1, 100),
    st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_frames_come_out_whole_however_they_come_in(
    bodies: list[bytes], piece: int, whole: bool
) -> None:
    peer = Peer()
    peer.receive(framed(*bodies), 10**9 if whole else piece)
    assert peer.frames == bodies
    assert not peer.inbox.partial
    peer.inbox.release()
    assert peer.memory.held == 0


def test_frames_are_ours_and_writable() -> None:
    """Batches are patched in place, and the scratch is the next connection's."""
    inbox = Peer().inbox
    data = framed(b"abc", b"de")
    inbox.space()[: len(data)] = data
    first, second = inbox.take(len(data))
    first[0] = 0
    inbox.space()[: len(data)] = bytes(len(data))
    assert (bytes(first), bytes(second)) == (b"\0bc", b"de")


@pytest.mark.parametrize("size", [-1, -(2**31), 101, 2**31 - 1])
def test_sizes_out_of_bounds_are_refused_at_once(size: int) -> None:
    with pytest.raises(RemoteProtocolError, match="100 are allowed"):
        Peer(most=100).receive(struct.pack(">i", size))


def test_only_some_requests_may_be_large() -> None:
    """Two megabytes of tiny structs become a hundred of objects: only what is not decoded into
    many objects may be larger."""
    peer = Peer(most=1000, small=100)
    peer.receive(struct.pack(">ih", 500, 0) + bytes(498))
    assert len(peer.frames) == 1
    with pytest.raises(RemoteProtocolError, match="API key 3"):
        peer.receive(struct.pack(">ih", 500, 3))
    # The key may come later than the size.
    late = Peer(most=1000, small=100)
    late.receive(struct.pack(">ih", 500, 3)[:5])
    with pytest.raises(RemoteProtocolError, match="API key 3"):
        late.receive(struct.pack(">ih", 500, 3)[5:])


def test_a_limit_that_is_raised_holds_from_the_next_frame_on() -> None:
    peer = Peer(most=10)
    peer.inbox.allow(1000)
    peer.receive(framed(bytes(500)))
    assert len(peer.frames) == 1


def test_who_announces_much_and_sends_little_holds_little() -> None:
    """A cheap attack: thousands of connections that announce 100 MB and send nothing."""
    memory = RequestMemory()
    peers = [Peer(memory, most=10**8) for _ in range(100)]
    for peer in peers:
        peer.receive(struct.pack(">ih", 10**8, 0))
    assert memory.held <= 100 * 16 * 1024
    for peer in peers:
        peer.inbox.release(all_of_it=True)
    assert memory.held == 0


@given(st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_requests_that_wait_for_each_others_memory_all_arrive(seed: int) -> None:
    """However little memory there is, nobody waits for ever, and it is never exceeded by more than
    one request."""
    random, memory, largest = Random(seed), RequestMemory(100_000), 90_000
    peers = {Peer(memory): framed(bytes(random.randrange(70, largest)), b"next") for _ in range(12)}
    gone = random.sample(list(peers), 3)
    while peers:
        for peer in random.sample(list(peers), len(peers)):
            rest = peers[peer] = peers[peer][peer.receive(peers[peer][:5000]) :]
            assert memory.held <= memory.limit + largest  # type: ignore[operator]  # it has one
            if peer.frames:
                peer.inbox.release()
            if peer in gone and peer.inbox.partial and random.random() < 0.3:
                peer.inbox.release(all_of_it=True)
                del peers[peer]
            elif not rest:
                assert len(peer.frames) == 2
                peer.inbox.release(all_of_it=True)
                del peers[peer]
    assert (memory.held, memory.waiting) == (0, 0)
