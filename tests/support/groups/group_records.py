"""Hypothesis strategies of what a group writes to its log."""

from __future__ import annotations

from hypothesis import strategies as st

from tallymark.groups.records import CommittedOffset, GroupMetadata, MemberMetadata

TEXT = st.text(max_size=20)
NUMBER = st.integers(0, 2**31 - 1)
TIME = st.integers(-1, 2**63 - 1)
OFFSETS = st.builds(CommittedOffset, TIME, st.integers(-1, 2**31 - 1), TEXT, TIME)
MEMBERS = st.builds(
    MemberMetadata,
    TEXT,
    st.none() | TEXT,
    TEXT,
    TEXT,
    NUMBER,
    NUMBER,
    st.binary(max_size=20),
    st.binary(max_size=20),
)
GROUPS = st.builds(
    GroupMetadata, TEXT, NUMBER, st.none() | TEXT, st.none() | TEXT, TIME,
    st.lists(MEMBERS, max_size=3).map(tuple),
)  # fmt: skip
