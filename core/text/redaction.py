"""Takes secrets out of texts that are passed on: those that are known, and what looks like one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote

REDACTED = "(redacted)"
MIN_CHARACTERS = 4
"""A shorter secret is not searched for: every text has it somewhere."""

SECRET_NAME = re.compile(
    r"pass(?:word|wd|phrase)|secret|token|credential|private.?key|access.?key|api.?key"
    r"|authorization|jaas",
    re.IGNORECASE,
)
"""What the name of an option, a property or a variable has in it whose value is a secret."""

_NAMED = rf"[\w.-]{{0,60}}(?:{SECRET_NAME.pattern})[\w.-]{{0,60}}"
_VALUE = r"""\\"[^"\n]*"?|"(?:[^"\\\n]|\\.)*"?|'[^'\n]*'?|(?:(?:bearer|basic)\s+)?[^\s,;&}"']+"""
_KINDS = tuple(
    re.compile(kind, re.IGNORECASE | re.DOTALL)
    for kind in (
        r"(?P<secret>-----BEGIN .*?(?:-----END [^-]*-----|\Z))",
        r"://(?P<secret>[^/\s@]+)@",
        rf"--{_NAMED}\s+(?P<secret>{_VALUE})",
        rf"""{_NAMED}\\?["']?\s*[=:]\s*(?P<secret>{_VALUE})""",
        r"\b(?:bearer|basic)\s+(?P<secret>[\w.~+/=-]{8,})",
        r"\b(?P<secret>eyJ[\w-]{8,}(?:\.[\w-]*){1,4})",
        r"\b(?P<secret>(?:AKIA|ASIA)[A-Z0-9]{16})\b",
    )
)
"""PEM, users of URLs, options and assignments by their names, headers, JWT, ids of AWS's keys."""
_BASE64 = re.compile(r"(?<![\w/+=])[A-Za-z0-9/+]{40}(?![\w/+=])|[A-Za-z0-9/+]{60,}={0,2}")
"""AWS's secret keys, and lines of a PEM whose beginning is not there."""


def redactor(secrets: Iterable[str]) -> Callable[[str], str]:
    """Return a function that returns a text without these secrets, and without what looks like one.

    A secret is found as it is, and as JSON and URLs write it.
    """
    known = {secret.strip() for secret in secrets}
    written = {
        form
        for secret in known
        if len(secret) >= MIN_CHARACTERS
        for form in (secret, json.dumps(secret)[1:-1], quote(secret, safe=""))
    }
    # The longest first: one may be a part of another.
    ordered = sorted(written, key=len, reverse=True)
    exact = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    def redact(text: str) -> str:
        # All are searched for in the text as it is: what one takes out may be what shows another.
        spans = [] if exact is None else [match.span() for match in exact.finditer(text)]
        for kind in _KINDS:
            spans += [match.span("secret") for match in kind.finditer(text)]
        spans += [match.span() for match in _BASE64.finditer(text) if _has_mixed_chars(match[0])]
        return _redact_spans(text, sorted(spans))

    return redact


def _has_mixed_chars(text: str) -> bool:
    """Return whether there are small and capital letters and digits: paths seldom have all."""
    return all(re.search(kind, text) for kind in ("[a-z]", "[A-Z]", "[0-9]"))


def _redact_spans(text: str, spans: Iterable[tuple[int, int]]) -> str:
    parts, done = list[str](), 0
    for start, end in spans:
        if start >= done:
            parts += (text[done:start], REDACTED)
        done = max(done, end)
    return "".join((*parts, text[done:]))


def redact_values(document: Any, redact: Callable[[str], str]) -> Any:
    """Return a JSON document whose texts have gone through `redact`, keys included."""
    match document:
        case str():
            return redact(document)
        case dict():
            return {
                redact(str(key)): redact_values(value, redact) for key, value in document.items()
            }
        case list() | tuple():
            return [redact_values(value, redact) for value in document]
    return document
