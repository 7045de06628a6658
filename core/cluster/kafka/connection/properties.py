"""Properties files, read as java.util.Properties and Kafka's ConfigDef read them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from core.errors import DocumentError

_BLANKS = " \t\f"
_TRIMMED = "".join(map(chr, range(0x21)))
"""What Java's String.trim takes away; a non-breaking space stays."""

_ENTRY = re.compile(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u(?:[0-9A-Fa-f]{4})?|.)", re.DOTALL)
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


def parse_properties(data: bytes) -> dict[str, str]:
    """Return the entries of a Java properties file; of a key that comes twice, the last one.

    Values are trimmed, as ConfigDef.parseType does it. Bytes are ISO-8859-1. A surrogate alone is
    a question mark, which is what Java sends for it. Raises ValueError for a `\\u` without its
    four digits, which Java refuses, too.
    """
    entries: dict[str, str] = {}
    for line in _logical_lines(data.decode("latin-1")):
        entry = _ENTRY.fullmatch(line)
        assert entry is not None  # it matches whatever there is
        entries[_unescape(entry[1])] = _unescape(entry[2]).strip(_TRIMMED)
    return entries


def read_properties(path: Path) -> dict[str, str]:
    """Return a file's entries as written; raises DocumentError for one that cannot be read."""
    try:
        return parse_properties(path.read_bytes())
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise DocumentError(
            f"{path} cannot be read: {reason}.",
            next="--command-config takes a Kafka client properties file.",
        ) from error


def read_named_file(properties: Path, name: str, location: str) -> bytes:
    """Return what a file holds that a property names; a relative path begins beside the properties.

    Not where the command runs: a run, and whatever else lives longer, has no such folder.
    Raises DocumentError for one that cannot be read.
    """
    folder = properties.absolute().parent
    try:
        return (folder / location).read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no path has a NUL in it"
        raise DocumentError(
            f"{properties}: {name} {location} cannot be read: {reason}.",
            next=f"Mend its permissions, or the path: it begins at {folder}, or with a slash.",
        ) from error


def _logical_lines(text: str) -> Iterator[str]:
    """Yield lines with those they go on in; comments and blank lines are none."""
    begun = ""
    for line in re.split(r"\r\n?|\n", text):
        line = line.lstrip(_BLANKS)
        if not begun and (not line or line[0] in "#!"):
            continue
        goes_on = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        begun += line[:-1] if goes_on else line
        if not goes_on:
            yield begun
            begun = ""
    if begun:
        yield begun


def _unescape(text: str) -> str:
    def replaced(match: re.Match[str]) -> str:
        escaped: str = match[1]
        if escaped == "u":
            raise ValueError("a \\u is not followed by four hexadecimal digits")
        if escaped[0] == "u":
            return chr(int(escaped[1:], 16))
        return _CONTROLS.get(escaped, escaped)

    if "\\" not in text:
        return text
    units = _ESCAPE.sub(replaced, text).encode("utf-16-le", "surrogatepass")
    joined = units.decode("utf-16-le", "surrogatepass")
    return re.sub("[\ud800-\udfff]", "?", joined)


def check_no_nul(name: str, value: str, path: Path) -> None:
    """Raise DocumentError for a NUL: client libraries end there, and send a part of a password."""
    if "\0" in value:
        raise DocumentError(
            f"{path}: a value of {name} has a NUL in it.",
            next="Take out what is read as one: \\u0000, or \\\\0 in quotes of a JAAS config.",
        )
