"""How far mirrors and groups have come in logs that were cut since."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tallymark_audit.judge.copy_progress import Cut, Word, since_cuts

WORDS = st.builds(Word, st.sampled_from("ab"), *[st.integers(0, n) for n in (2, 20, 20)])
CUTS = st.builds(Cut, *[st.integers(0, n) for n in (2, 20, 20)])


def test_a_report_of_before_a_cut_reaches_to_the_cut() -> None:
    words = [Word("a", 0, 250, 7), Word("b", 0, 40, 7), Word("c", 1, 250, 7), Word("d", 0, 250, 8)]
    assert since_cuts(words, [Cut(0, 100, 7), Cut(0, 90, 6)]) == [
        Word("a", 0, 100, 7),
        *words[1:],
    ]


@given(st.lists(WORDS, max_size=5), st.lists(CUTS, max_size=5))
def test_no_report_reaches_beyond_a_later_cut_and_none_is_lost(
    words: list[Word], cuts: list[Cut]
) -> None:
    found = since_cuts(words, cuts)
    assert [one._replace(offset=0) for one in found] == [one._replace(offset=0) for one in words]
    for word, now in zip(words, found, strict=True):
        later = [
            one.offset for one in cuts if one.partition == word.partition and one.at >= word.at
        ]
        assert now.offset == min([word.offset, *later])
