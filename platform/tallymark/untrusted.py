"""Text that strangers wrote (names, keys, reasons), made safe to show to people and to paste. Pure.

A terminal obeys control characters, and shows text with bidirectional overrides in another order
than it stands (CVE-2021-42574); a shell runs what an unquoted name holds. So whatever came from
outside goes through :func:`escaped` before it is shown, and through :func:`command` before it
stands in a command that a reader may copy::

    escaped("a\\x1b[2Jb")                              a\\x1b[2Jb
    command("tallymark topics delete", "$(id)")       tallymark topics delete '$(id)'
    command("tallymark topics delete", "--yes")       tallymark topics delete -- --yes
"""

from __future__ import annotations

import re
import shlex
from typing import Final

LINES: Final = "\n\t"
"""What text of several lines may have."""

_CONTROL_BYTES: Final = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")


def escaped(text: str, keep: str = "") -> str:
    r"""``text`` with every character that does not print (controls, bidirectional overrides,
    separators other than a space, lone surrogates: :meth:`str.isprintable`) as Python writes it,
    ``\x1b``, ``\u202e``; those of ``keep`` stay. Other text is returned as it is."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else _escape(c) for c in text)


def escaped_json(text: str) -> str:
    r"""JSON that was written with ``ensure_ascii=False``, for people: the same document, in which
    characters that do not print are ``\uXXXX``. Newlines between its parts stay."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else _json_escape(c) for c in text)


def escaped_bytes(data: bytes) -> bytes:
    r"""Bytes for a terminal: as text of UTF-8 where they are, with ``\x..`` for what does not
    print; newlines and tabs stay."""
    if not _CONTROL_BYTES.search(data) and data.isascii():
        return data
    text = data.decode(errors="surrogateescape")
    return "".join(c if c.isprintable() or c in LINES else _byte_escape(c) for c in text).encode()


def command(program: str, *arguments: str, **options: str) -> str:
    """A line for a POSIX shell: ``program`` as it is given, ``options`` (``from_`` is ``--from``),
    then ``arguments``, each quoted where it has to be. Arguments that look like options stand
    behind ``--``."""
    words = [program]
    for name, value in options.items():
        words += [f"--{name.strip('_').replace('_', '-')}", _word(value)]
    if any(argument.startswith("-") for argument in arguments):
        words.append("--")
    return " ".join([*words, *map(_word, arguments)])


def _word(text: str) -> str:
    if text.isprintable():
        return shlex.quote(text)
    # A name of control characters, as bash, zsh and ksh write it: $'...'
    kept = "".join(
        f"\\{c}" if c in "\\'" else c if c.isprintable() else _shell_escape(c) for c in text
    )
    return f"$'{kept}'"


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode()


def _json_escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(
        f"\\u{int.from_bytes(units[at : at + 2], 'big'):04x}" for at in range(0, len(units), 2)
    )


def _byte_escape(char: str) -> str:
    code = ord(char)
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else _escape(char)


def _shell_escape(char: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in char.encode(errors="surrogateescape"))
