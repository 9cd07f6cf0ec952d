r"""Patterns of transactional ids (KIP-1152): a part of RE2's syntax, matched in linear time. Pure.

A pattern comes from a client. An engine that goes back, as Python's ``re``, is busy for ever with
``(a+)+b``; this one keeps the set of all places where it may be, so a character costs at most one
look at each place, and remembers which set follows which (the automaton grows as it is used).

::

    pattern  ─ parse ─▶  tree  ─ compile ─▶  places (Thompson)  ─ step ─▶  sets of places

Known: literals, ``.``, ``[a-z]``, ``[^a-z]``, ``\d \w \s`` and their opposites, ``\`` before a
sign, ``( )``, ``(?: )``, ``|``, ``* + ?`` also with a ``?`` behind, ``{n}``, ``{n,}``, ``{n,m}``,
``^ $`` at the ends, and ``(?i)`` at the beginning. The rest of RE2 is refused, and so is what has
more than :data:`MOST_PLACES` places. As in Kafka, a pattern must match the whole id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

MOST_PLACES: Final = 1_000
"""A limit like RE2's for repetitions."""
MOST_STEPS: Final = 3_000_000
"""Looks at places for the ids of one request: about a second."""
_MOST_SETS: Final = 250
_MOST_WAYS: Final = 50_000
"""What is remembered; then it begins again."""
_LONGEST: Final = 1_000

_Test: TypeAlias = Callable[[str], bool]
_Place: TypeAlias = tuple[_Test | None, tuple[int, ...]]
"""What one character must be, and where to go then; None: go on without one. Without a way: the
end."""


class BadPattern(ValueError):
    """It is none, has what is not known, or would take too long; the text says what."""


class Pattern:
    """A pattern, ready to be used for the ids of one request. Raises :class:`BadPattern`."""

    def __init__(self, text: str) -> None:
        if len(text) > _LONGEST:
            raise BadPattern(f"longer than {_LONGEST} characters")
        self._places = _Parser(text).places()
        self._steps = 0
        self._begin_again()

    def matches(self, name: str) -> bool:
        """Whether the pattern matches the whole ``name``. :class:`BadPattern` where the ids so far
        have taken too long."""
        at = self._start
        for sign in name:
            known = self._next.get((at, sign))
            at = self._step(at, sign) if known is None else known
        return any(not ways and test is None for test, ways in self._of(at))

    def _begin_again(self) -> None:
        self._sets: list[frozenset[int]] = []
        self._numbers: dict[frozenset[int], int] = {}
        self._next: dict[tuple[int, str], int] = {}
        self._start = self._number(self._closed((0,)))

    def _of(self, at: int) -> Iterable[_Place]:
        return (self._places[place] for place in self._sets[at])

    def _step(self, at: int, sign: str) -> int:
        if len(self._sets) > _MOST_SETS or len(self._next) > _MOST_WAYS:
            places = self._sets[at]
            self._begin_again()
            at = self._number(places)
        self._steps += len(self._sets[at])
        reached = (
            way for test, ways in self._of(at) if test is not None and test(sign) for way in ways
        )
        found = self._next[at, sign] = self._number(self._closed(reached))
        return found

    def _number(self, places: frozenset[int]) -> int:
        number = self._numbers.setdefault(places, len(self._sets))
        if number == len(self._sets):
            self._sets.append(places)
        return number

    def _closed(self, reached: Iterable[int]) -> frozenset[int]:
        """These places, and those that need no character."""
        found: set[int] = set()
        left = list(reached)
        self._steps += 1
        while left:
            place = left.pop()
            if place not in found:
                found.add(place)
                self._steps += 1
                test, ways = self._places[place]
                if test is None:
                    left.extend(ways)
        if self._steps > MOST_STEPS:
            raise BadPattern("it takes too long")
        return frozenset(found)


class _Parser:
    """Recursive descent; each ``_of_...`` appends places and returns the first of them. What it
    makes goes on to ``then``, so a pattern is read from its last part to its first: parts are kept
    as functions of what follows."""

    def __init__(self, text: str) -> None:
        self._ignores_case = text.startswith("(?i)")
        self._text = text[4:] if self._ignores_case else text
        self._at = 0
        self._depth = 0
        self._times_made = 0
        self._places: list[_Place] = []

    def places(self) -> tuple[_Place, ...]:
        """The program; place 0 is where it begins."""
        self._places.append((None, ()))  # the beginning, set below
        made = self._either()
        if self._at < len(self._text):
            raise BadPattern(f"{self._text[self._at]!r} at {self._at} closes nothing")
        end = self._add(None, ())
        self._places[0] = (None, (made(end),))
        return tuple(self._places)

    def _add(self, test: _Test | None, ways: tuple[int, ...]) -> int:
        if len(self._places) >= MOST_PLACES:
            raise BadPattern("it is too large")
        self._places.append((test, ways))
        return len(self._places) - 1

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self) -> str:
        sign = self._peek()
        if not sign:
            raise BadPattern("it ends too early")
        self._at += 1
        return sign

    def _either(self) -> _Part:
        parts = [self._sequence()]
        while self._peek() == "|":
            self._take()
            parts.append(self._sequence())
        if len(parts) == 1:
            return parts[0]
        return lambda then: self._add(None, tuple(part(then) for part in parts))

    def _sequence(self) -> _Part:
        parts: list[_Part] = []
        while self._peek() not in ("", "|", ")"):
            part = self._one()
            if part is not None:
                parts.append(self._repeated(part))

        def made(then: int) -> int:
            for part in reversed(parts):
                then = part(then)
            return then

        return made

    def _one(self) -> _Part | None:
        sign, at = self._take(), self._at
        if sign == "(":
            return self._group()
        if sign == "[":
            return self._of(self._members())
        if sign == "\\":
            return self._of(self._cased(self._escape()))
        if sign == ".":
            return self._of(lambda each: each != "\n")
        if sign in "*+?{":
            raise BadPattern(f"{sign!r} at {at - 1} repeats nothing")
        if (sign == "^" and at == 1) or (sign == "$" and at == len(self._text)):
            return None  # the whole id must match anyway
        if sign in "^$":
            raise BadPattern(f"{sign!r} at {at - 1}: known at the ends of the pattern only")
        return self._of(self._cased(_equal(sign)))

    def _group(self) -> _Part:
        self._depth += 1
        if self._depth > 50:
            raise BadPattern("more than 50 groups in each other")
        if self._peek() == "?":
            if self._text[self._at : self._at + 2] != "?:":
                raise BadPattern("of groups with '(?' only '(?:' is known")
            self._at += 2
        made = self._either()
        if self._peek() != ")":
            raise BadPattern("a '(' is not closed")
        self._take()
        self._depth -= 1
        return made

    def _of(self, test: _Test) -> _Part:
        return lambda then: self._add(test, (then,))

    def _cased(self, test: _Test) -> _Test:
        if not self._ignores_case:
            return test
        return lambda sign: test(sign) or test(sign.lower()) or test(sign.upper())

    def _repeated(self, part: _Part) -> _Part:
        least, most = 1, 1
        sign = self._peek()
        if sign in ("*", "+", "?"):
            self._take()
            least, most = {"*": (0, -1), "+": (1, -1), "?": (0, 1)}[sign]
        elif sign == "{":
            least, most = self._counts()
        else:
            return part
        if self._peek() == "?":
            self._take()  # how much is taken first decides nothing: the whole id must match
        if self._peek() in ("*", "+", "?", "{") and self._peek():
            raise BadPattern(f"{self._peek()!r} at {self._at} repeats a repetition")
        return lambda then: self._times(part, least, most, then)

    def _times(self, part: _Part, least: int, most: int, then: int) -> int:
        if most < 0:
            again = self._add(None, ())
            self._places[again] = (None, (part(again), then))
            then = again
        for _ in range(most - least):
            then = self._add(None, (part(then), then))
        for _ in range(least):
            self._times_made += 1  # a part may be empty, and in such a repetition itself
            if self._times_made > MOST_PLACES:
                raise BadPattern("it is too large")
            then = part(then)
        return then

    def _counts(self) -> tuple[int, int]:
        end = self._text.find("}", self._at)
        low, comma, high = (
            self._text[self._at + 1 : end].partition(",") if end > 0 else ("", "", "")
        )
        if not _is_count(low) or not (_is_count(high) or not high):
            raise BadPattern(f"'{{' at {self._at}: known are {{n}}, {{n,}} and {{n,m}}")
        self._at = end + 1
        least = int(low)
        most = int(high) if high else (-1 if comma else least)
        if max(least, most) > MOST_PLACES or 0 <= most < least:
            raise BadPattern(f"{{{low}{comma}{high}}} is no number of repetitions")
        return least, most

    def _escape(self) -> _Test:
        sign = self._take()
        if sign in _CLASSES:
            return _CLASSES[sign]
        if sign in _CONTROLS:
            return _equal(_CONTROLS[sign])
        if sign.isalnum() or not sign.isascii():
            raise BadPattern(f"'\\{sign}' is not known")
        return _equal(sign)

    def _members(self) -> _Test:
        """``[...]`` after the bracket."""
        negated = self._peek() == "^"
        if negated:
            self._take()
        tests: list[_Test] = []
        while self._peek() != "]" or not tests:
            tests.append(self._cased(self._member()))
        self._take()
        if negated:
            return lambda sign: not any(test(sign) for test in tests)
        return lambda sign: any(test(sign) for test in tests)

    def _member(self) -> _Test:
        first = self._take()
        if first == "[" and self._peek() == ":":
            raise BadPattern("classes like [[:alpha:]] are not known")
        if first == "\\":
            if self._peek() in _CLASSES and self._peek():
                return _CLASSES[self._take()]
            first = self._literal()
        if self._peek() != "-" or self._text[self._at + 1 : self._at + 2] in ("]", ""):
            return _equal(first)
        self._take()
        last = self._take()
        if last == "\\":
            last = self._literal()
        if last < first:
            raise BadPattern(f"'{first}-{last}' goes backwards")
        return lambda sign: first <= sign <= last

    def _literal(self) -> str:
        sign = self._take()
        if sign in _CONTROLS:
            return _CONTROLS[sign]
        if sign.isalnum() or not sign.isascii():
            raise BadPattern(f"'\\{sign}' is not known")
        return sign


_Part: TypeAlias = Callable[[int], int]
"""Adds the places of a part of the pattern, which go on to the given one; returns the first."""


def _equal(wanted: str) -> _Test:
    return lambda sign: sign == wanted


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 6


def _is_word(sign: str) -> bool:
    return sign.isascii() and (sign.isalnum() or sign == "_")


def _is_digit(sign: str) -> bool:
    return sign.isascii() and sign.isdecimal()


def _is_space(sign: str) -> bool:
    return sign in "\t\n\f\r "


_CLASSES: Final[dict[str, _Test]] = {
    "d": _is_digit,
    "D": lambda sign: not _is_digit(sign),
    "w": _is_word,
    "W": lambda sign: not _is_word(sign),
    "s": _is_space,
    "S": lambda sign: not _is_space(sign),
}
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
