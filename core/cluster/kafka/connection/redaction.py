"""Client properties without their secrets, for bug reports: an allow-list says what is kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from core.cluster.kafka.connection.config_providers import resolve_providers
from core.cluster.kafka.connection.login.sasl import parse_jaas
from core.cluster.kafka.connection.properties import read_properties
from core.cluster.kafka.connection.property_names import HARMLESS, KNOWN
from core.errors import DocumentError
from core.text.redaction import REDACTED


def redact_properties(path: Path) -> tuple[list[str], frozenset[str]]:
    """Return a properties file's lines as they may be shown, and all texts that may not.

    Names that Kafka's clients do not know are counted only: a line of a key or of a password that
    goes on unescaped reads as one. Raises DocumentError for a file that cannot be read.
    """
    entries = read_properties(path)
    known = sorted(entries.keys() & (KNOWN | HARMLESS))
    lines = [f"{n}={entries[n] if n in HARMLESS else REDACTED}" for n in known]
    if others := entries.keys() - set(known):
        lines.append(f"# lines with other keys: {len(others)}")
    return lines, frozenset(_secrets(entries, path))


def _secrets(entries: dict[str, str], path: Path) -> Iterator[str]:
    """Yield what is not shown, whole and in the parts that messages and logs could quote."""
    resolved = dict[str, str]()
    with suppress(DocumentError):  # a reference that leads nowhere leads to no secret
        resolved = resolve_providers(dict(entries), path)
    for name, value in (*entries.items(), *resolved.items()):
        if name not in KNOWN | HARMLESS:
            yield name
        if name in HARMLESS:
            continue
        yield value
        yield from value.splitlines()
        with suppress(ValueError):
            yield from parse_jaas(value).options.values()
