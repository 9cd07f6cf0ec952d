"""Maps the distinguished name of a certificate to the name of a user: Kafka's
``ssl.principal.mapping.rules``.

::

    RULE:^CN=([^,]+),.*$/$1/L, DEFAULT

Rules are tried in order; the first whose pattern matches the whole name makes the user from its
replacement (``$1`` is the first group; ``L`` and ``U`` change the case). DEFAULT keeps the name as
it is. A name that no rule matches is also kept: it does not become another user. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from tallymark.patterns import compile_pattern

_RULE: Final = re.compile(
    r"\s*(?:(?P<default>DEFAULT)"
    r"|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))"
    r"\s*(?:,|$)"
)
_CASES: Final[dict[str, Callable[[str], str]]] = {"L": str.lower, "U": str.upper, "": str}


class _Rule(NamedTuple):
    pattern: re.Pattern[str]
    replacement: str
    case: str


class PrincipalRules:
    """``text`` is the setting; ValueError names the part that is wrong."""

    def __init__(self, text: str = "DEFAULT") -> None:
        self._rules: list[_Rule | None] = []
        place = 0
        while place < len(text):
            found = _RULE.match(text, place)
            if found is None:
                raise ValueError(f"{text[place:]!r} is neither DEFAULT nor RULE:pattern/name/[LU]")
            self._rules.append(None if found["default"] else _rule(found))
            place = found.end()

    def user(self, name: str) -> str:
        """The user of a distinguished name."""
        for rule in self._rules:
            if rule is None:
                return name
            if found := rule.pattern.fullmatch(name):
                return _CASES[rule.case](found.expand(rule.replacement)) or name
        return name


def _rule(found: re.Match[str]) -> _Rule:
    pattern = compile_pattern(found["pattern"].replace("\\/", "/"))
    # Java writes groups as $1, Python as \1; other backslashes are plain characters.
    template = found["replacement"].replace("\\/", "/").replace("\\", "\\\\")
    replacement = re.sub(r"\$(\d)", r"\\g<\1>", template)
    wanted = max((int(number) for number in re.findall(r"\$(\d)", template)), default=0)
    if wanted > pattern.groups:
        raise ValueError(f"{found['pattern']!r} has no group ${wanted}")
    return _Rule(pattern, replacement, found["case"])
