"""`config.providers`: values of client properties that stand in files or in the environment.

They are resolved as Kafka's AbstractConfig and ConfigTransformer resolve them, once. Where Kafka
passes on a reference that leads nowhere as it is written, it is refused: no login has that value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from core.cluster.kafka.connection.properties import parse_properties
from core.errors import DocumentError
from core.patterns import compiled

PROVIDERS = "config.providers"
_PACKAGE = "org.apache.kafka.common.config.provider."
_REFERENCE = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")
"""`${provider:key}` or `${provider:path:key}`, as in ConfigTransformer."""

Lookup = Callable[[str, str], str | None]
"""Returns the value of a path and a key, None where there is none; raises OSError, ValueError."""


def resolve_providers(entries: dict[str, str], path: Path) -> dict[str, str]:
    """Return entries with their references resolved, without the providers themselves.

    A relative path begins beside the properties file. Raises DocumentError for a provider that is
    not known here, and for a reference that leads nowhere; no message has a value in it.
    """
    names = [name.strip() for name in entries.get(PROVIDERS, "").split(",") if name.strip()]
    if not names:
        return entries
    providers = {name: _provider(name, entries, path) for name in names}
    left = {key: value for key, value in entries.items() if not key.startswith(PROVIDERS)}
    return {key: _resolve_references(key, value, providers, path) for key, value in left.items()}


def _resolve_references(key: str, value: str, providers: Mapping[str, Lookup], path: Path) -> str:
    def replacement(match: re.Match[str]) -> str:
        lookup = providers.get(match[1])
        if lookup is None:
            return match[0]
        place, name = match[3] or "", match[4]
        try:
            substitute = lookup(place, name)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise DocumentError(
                f"{path}: {key} refers to {place}, which cannot be read: {reason}.",
                next=f"Mend the reference, or the file's permissions; the provider is {match[1]}.",
            ) from error
        if substitute is None:
            where = f" in {place}" if place else ""
            raise DocumentError(
                f"{path}: {key} refers to {name}{where}, which does not exist.",
                next=f"Set it, or mend the reference; the provider is {match[1]}.",
            )
        return substitute

    return _REFERENCE.sub(replacement, value)


def _provider(name: str, entries: Mapping[str, str], path: Path) -> Lookup:
    of_name = entries.get(f"{PROVIDERS}.{name}.class", "")
    parameters = f"{PROVIDERS}.{name}.param."
    folder = path.absolute().parent
    match of_name.removeprefix(_PACKAGE):
        case "EnvVarConfigProvider":
            return _env_lookup(entries.get(f"{parameters}allowlist.pattern", ".*"), path)
        case "FileConfigProvider":
            return _file_lookup(folder, _allowed(entries.get(f"{parameters}allowed.paths"), folder))
        case "DirectoryConfigProvider":
            return _dir_lookup(folder, _allowed(entries.get(f"{parameters}allowed.paths"), folder))
    raise DocumentError(
        f"{path}: {PROVIDERS}.{name}.class {of_name or 'is not set'}"
        f"{', which is not supported' if of_name else ''}.",
        next="Supported: " + ", ".join(f"{_PACKAGE}{kind}ConfigProvider" for kind in _KINDS) + ".",
    )


_KINDS = ("File", "Directory", "EnvVar")


def _env_lookup(pattern: str, path: Path) -> Lookup:
    try:
        allowed = compiled(pattern)
    except re.error as error:
        raise DocumentError(
            f"{path}: allowlist.pattern is no regular expression: {error}.",
            next="Write one that matches the whole names of variables.",
        ) from error
    return lambda _, name: os.environ.get(name) if allowed.fullmatch(name) else None


def _file_lookup(folder: Path, is_allowed: Callable[[Path], bool]) -> Lookup:
    def lookup(place: str, name: str) -> str | None:
        file = folder / place
        if not place or not is_allowed(file):
            return None
        return parse_properties(file.read_bytes()).get(name)

    return lookup


def _dir_lookup(folder: Path, is_allowed: Callable[[Path], bool]) -> Lookup:
    def lookup(place: str, name: str) -> str | None:
        file = folder / place / name
        # As Kafka's: a file of the folder itself, and of none above or below it.
        if not place or Path(name).name != name or not is_allowed(file) or not file.is_file():
            return None
        return file.read_text(encoding="utf-8")

    return lookup


def _allowed(paths: str | None, folder: Path) -> Callable[[Path], bool]:
    if not paths:
        return lambda _: True
    roots = [(folder / part.strip()).resolve() for part in paths.split(",") if part.strip()]
    return lambda file: any(file.resolve().is_relative_to(root) for root in roots)
