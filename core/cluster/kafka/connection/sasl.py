"""`sasl.jaas.config`, read as Kafka's JaasConfig reads it: with java.io.StreamTokenizer.

What Kafka refuses is refused, and no message repeats what might be a part of a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

EXAMPLE = '…PlainLoginModule required username="…" password="…";'
_FLAGS = ("REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL")
_DISALLOWED = (
    "com.sun.security.auth.module.JndiLoginModule",
    "com.sun.security.auth.module.LdapLoginModule",
)
_PRINTABLE_OPTIONS = ("username", "password")
"""Names of options that messages may show; another may be the rest of a password cut in two."""

# A word begins with no digit, dot or minus, which begin a number; any of them may go on in it.
# A slash alone begins a comment, too: up to the end of a line, past whatever character is next.
_TOKEN = re.compile(
    r"""
      [\x00-\x20]+ | /\*.*?(?:\*/|\Z) | /.?[^\n\r]*
    | (?P<number> -?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]*) )
    | (?P<word> [A-Za-z_$\xa0-\U0010ffff][A-Za-z_$\xa0-\U0010ffff0-9.-]* )
    | "(?P<double> (?:\\.|[^"\\\n\r])* )"? | '(?P<single> (?:\\.|[^'\\\n\r])* )'?
    | (?P<sign> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3][0-7]{2}|[0-7]{1,2}|.)", re.DOTALL)
_CONTROLS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class _Token(NamedTuple):
    sign: str
    """The character that stands alone; empty for words, quoted texts and numbers."""
    text: str | None
    """Of a word or quoted text."""


@dataclass(frozen=True, slots=True)
class Login:
    """One login module and its options."""

    module: str
    options: dict[str, str] = field(repr=False)


def parse_jaas(text: str) -> Login:
    """Return the one login module of a `sasl.jaas.config`.

    Raises ValueError, in words without any of its values, for what Kafka refuses.
    """
    tokens = _tokenize(text)
    logins = [_parse_login(token.text, tokens) for token in tokens]
    if not logins:
        raise ValueError("it names no login module")
    if len(logins) > 1:
        raise ValueError(f"it names {len(logins)} login modules, and one is allowed")
    if logins[0].module.strip() in _DISALLOWED:
        raise ValueError("its login module is one that Kafka does not allow")
    return logins[0]


def _parse_login(module: str | None, tokens: Iterator[_Token]) -> Login:
    flag = next(tokens, None)
    if flag is None or flag.text is None or flag.text.upper() not in _FLAGS:
        raise ValueError("its login module is not followed by `required`")
    options: dict[str, str] = {}
    place = "`required`"
    for key in tokens:
        if key.sign == ";":
            if not module:
                raise ValueError("it names no login module")
            return Login(module, options)
        equals = next(tokens, None)
        if equals is None or equals.sign != "=":
            raise ValueError(f"what follows {place} is no NAME=VALUE")
        name = key.text if key.text in _PRINTABLE_OPTIONS else f"option {len(options) + 1}"
        value = next(tokens, None)
        if value is None or value.text is None:
            raise ValueError(f"the value of {name} is missing, or must be in quotes")
        place = f"the value of {name}"
        if key.text is not None:
            options[key.text] = value.text
    raise ValueError("it does not end with a semicolon")


def _tokenize(text: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(text):
        match match.lastgroup:
            case "word":
                yield _Token("", match["word"])
            case "double" | "single" as quoted:  # one that a line's end ends is whole, too
                yield _Token("", _ESCAPE.sub(_unescape, match[quoted]))
            case "number":
                yield _Token("", None)
            case "sign":
                yield _Token(match["sign"], None)


def _unescape(match: re.Match[str]) -> str:
    escaped: str = match[1]
    return chr(int(escaped, 8)) if escaped[0] in "01234567" else _CONTROLS.get(escaped, escaped)
