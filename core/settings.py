"""Settings from config.toml; flags and environment variables override them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core import paths
from core.errors import UsageError
from core.patterns import nearly
from core.units import parse_duration, parse_flow

MIN_TIMEOUT_SECONDS = 0.5
_SERVER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:\[\]/@]+):\d{1,5}")
_PROXY = re.compile(rf"socks5h?://([^\s/@]+@)?{_SERVER.pattern}/?")
COLORS = ("red", "orange", "yellow", "green", "blue", "purple")
"""What a cluster may be marked with."""


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """`[clusters.NAME]`: how to reach a cluster and what may be done to it."""

    bootstrap: str
    command_config: Path | None = None
    read_only: bool = False
    snapshots: str | None = None
    in_capacity_bytes_per_s: float | None = None
    out_capacity_bytes_per_s: float | None = None
    timeout_seconds: float | None = None
    """For how long it may leave whoever asks without an answer."""
    addresses: Mapping[str, str] = field(default_factory=dict)
    """Where brokers are reached from here, HOST:PORT by HOST:PORT as they advertise it."""
    proxy: str | None = field(default=None, repr=False)
    """The URL of a SOCKS5 proxy through which all brokers are reached."""
    color: str | None = None
    """The one of COLORS that its name stands on, so that nobody takes it for another cluster."""
    metrics: str | None = None
    """Where its runs publish metrics, as `parse_metrics` has it."""


@dataclass(frozen=True, slots=True)
class NotifyBy:
    """`[notify]`: how the dashboard calls out that a run has ended, or is stuck."""

    bell: bool = True
    desktop: bool = True
    """By an escape sequence (OSC 9, or 777), which terminals show as they are set to."""
    command: tuple[str, ...] = ()
    """A program and its arguments, which gets a JSON document on stdin; never a shell."""
    webhook: str | None = None
    """Where the same document is posted to. Both are the run's process's, with nobody attached."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The whole file; an absent one gives the defaults."""

    clusters: Mapping[str, ClusterSettings] = field(default_factory=dict)
    theme: str | None = None
    keys: Mapping[str, str] = field(default_factory=dict)
    notify: NotifyBy = field(default_factory=NotifyBy)
    balancer_topics: frozenset[str] = frozenset()
    """Topics that tell of a balancer, beside those that are known of all clusters."""

    def cluster(self, name: str) -> ClusterSettings:
        """Return one cluster's settings; raises UsageError naming those there are."""
        cluster = self.clusters.get(name)
        if cluster is None:
            known = ", ".join(sorted(self.clusters)) or "none yet"
            raise UsageError(
                f"No cluster named {name!r} in {paths.config_file()}.",
                next=f"Known: {known}. Or say -b HOST:PORT.",
            )
        return cluster

    def about(self, name: str | None, bootstrap: str) -> dict[str, ClusterSettings]:
        """Return all that is said of one cluster: by its name first, then by any of its brokers."""
        named = {key: cluster for key, cluster in self.clusters.items() if key == name}
        brokers = servers(bootstrap)
        return named | {
            k: cluster
            for k, cluster in self.clusters.items()
            if brokers & servers(cluster.bootstrap)
        }

    def name_of(self, bootstrap: str) -> str | None:
        """Return the one name of the cluster that has any of these brokers; None for several."""
        names = list(self.about(None, bootstrap))
        return names[0] if len(names) == 1 else None

    def timeout_of(self, name: str | None, bootstrap: str) -> float | None:
        """Return the timeout that is said of one cluster, in seconds; None for none."""
        about = self.about(name, bootstrap).values()
        return next(
            (cluster.timeout_seconds for cluster in about if cluster.timeout_seconds is not None),
            None,
        )

    @property
    def read_only_servers(self) -> frozenset[str]:
        """All brokers that are named of clusters that are read_only."""
        marked = (cluster.bootstrap for cluster in self.clusters.values() if cluster.read_only)
        return frozenset().union(*map(servers, marked))


def parse_timeout(text: str) -> float:
    """Return the seconds for which a cluster may be silent; raises UsageError for none at all."""
    seconds = parse_duration(text)
    if seconds < MIN_TIMEOUT_SECONDS:
        raise UsageError(
            f"{text!r} is too short for a broker to answer.",
            next=f"A timeout is {MIN_TIMEOUT_SECONDS:g} s at least.",
        )
    return seconds


LOOPBACK = "127.0.0.1"
METRICS_SUFFIX = ".prom"
"""Of the files that node_exporter's textfile collector reads; in its folder others mean nothing."""


def parse_metrics(text: str, folder: Path = Path()) -> str:
    """Return where metrics go, in full: `HOST:PORT`, or a file's path; raises UsageError.

    Without HOST it is this machine's loopback; a relative path is one from `folder`.
    """
    if text.endswith(METRICS_SUFFIX):
        return str((folder / paths.expand_user(text)).absolute())
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or LOOPBACK
    is_port = port.isascii() and port.isdecimal() and len(port) < 6 and 0 < int(port) < 2**16
    if not is_port or "/" in host or host != host.strip():
        raise UsageError(
            f"Metrics cannot go to {text!r}.",
            next=f"Give HOST:PORT, like :9464, or a file that ends in {METRICS_SUFFIX}.",
        )
    return f"[{host}]:{int(port)}" if ":" in host else f"{host}:{int(port)}"


def servers(bootstrap: str) -> frozenset[str]:
    """Return the brokers that an address names; two that share one are of the same cluster."""
    named = (server.strip().lower() for server in bootstrap.split(","))
    return frozenset(server for server in named if server)


def load_settings(path: Path | None = None) -> Settings:
    """Read config.toml.

    Raises UsageError for TOML that is not valid, values of a wrong type, and names that it has none
    of: a misspelt read_only must not leave a cluster writable.
    """
    path = path or paths.config_file()
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        _refuse_nul(document)
        _only(document, ("clusters", "theme", "keys", "notify", "balancer_topics"))
        clusters, keys = (_read_value(document, key, dict, {}) for key in ("clusters", "keys"))
        return Settings(
            clusters={name: _cluster(name, table, path) for name, table in clusters.items()},
            theme=_read_value(document, "theme", str, None),
            keys={action: _read_value(keys, action, str, "", "keys.") for action in keys},
            notify=_parse_notify(_read_value(document, "notify", dict, {})),
            balancer_topics=_topics(_read_value(document, "balancer_topics", list, [])),
        )
    except (FileNotFoundError, NotADirectoryError):
        return Settings()
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}.", next="Fix its permissions."
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not text.", next="Save it as UTF-8.") from error
    except ValueError as error:  # TOML's own, and that of a number with thousands of digits
        if twice := _TWICE.match(str(error)):
            raise UsageError(
                f"{path} names two clusters {twice[1]!r}, again in line {twice[2]}.",
                next="Rename or delete one of them.",
            ) from error
        raise UsageError(f"{path} is not TOML: {error}.", next="Fix that line.") from error
    except RecursionError as error:
        raise UsageError(f"{path} is nested too deeply.", next="Write it flatter.") from error
    except _ConfigError as wrong:
        raise UsageError(f"{path}: {wrong}.", next=wrong.next) from wrong


_TWICE = re.compile(r"Cannot declare \('clusters', ['\"](.+)['\"]\) twice \(at line (\d+)")
"""What tomllib says of a name that two clusters have."""


class _ConfigError(Exception):
    """Which key has the wrong value, and what it should be; or which there is none of."""

    def __init__(self, what: str, next: str = "Fix that line.") -> None:
        super().__init__(what)
        self.next = next


_KINDS: Mapping[type, str] = {
    dict: "a table",
    list: "a list",
    str: "a text",
    bool: "true or false",
}


def _refuse_nul(value: object, at: str = "") -> None:
    """Refuse a NUL in any text: no path, address or argument of a program can have one."""
    match value:
        case str() if "\0" in value:
            raise _ConfigError(f"{at or 'a key'} has a NUL in it")
        case list():
            for each in value:
                _refuse_nul(each, at)
        case dict():
            for key, each in value.items():
                _refuse_nul(key)
                _refuse_nul(each, f"{at}.{key}".lstrip("."))


def _only(table: Mapping[str, Any], names: Sequence[str], at: str = "") -> None:
    for key in table:
        if key not in names:
            known = f"There are {', '.join(names)}."
            raise _ConfigError(f"there is no {at}{key}", nearly(key, names) or known)


def _read_value(
    table: Mapping[str, Any], key: str, kind: type[Any], default: Any, at: str = ""
) -> Any:
    value = table.get(key, default)
    if key in table and not isinstance(value, kind):
        raise _ConfigError(f"{at}{key} must be {_KINDS[kind]}")
    return value


def _parse_notify(table: Mapping[str, Any]) -> NotifyBy:
    _only(table, ("bell", "desktop", "command", "webhook"), "notify.")
    command = _read_value(table, "command", list, [], "notify.")
    if not all(isinstance(word, str) and word for word in command):
        raise _ConfigError('notify.command must be a list of texts like ["notify-me", "--now"]')
    webhook = _read_value(table, "webhook", str, None, "notify.")
    if webhook is not None and not webhook.startswith(("https://", "http://")):
        raise _ConfigError('notify.webhook must be a URL like "https://example.org/hook"')
    return NotifyBy(
        bell=_read_value(table, "bell", bool, True, "notify."),
        desktop=_read_value(table, "desktop", bool, True, "notify."),
        command=tuple(command),
        webhook=webhook,
    )


def _topics(names: Sequence[Any]) -> frozenset[str]:
    if not all(isinstance(name, str) and name for name in names):
        raise _ConfigError('balancer_topics must be a list of topics like ["my.balancer.metrics"]')
    return frozenset(names)


_CLUSTER_KEYS = (
    *("bootstrap", "command_config", "read_only", "snapshots", "in_capacity", "out_capacity"),
    *("timeout", "addresses", "proxy", "color", "metrics"),
)


def _cluster(name: str, table: Any, path: Path) -> ClusterSettings:
    at = f"clusters.{name}."
    if not isinstance(table, dict):
        raise _ConfigError(f"clusters.{name} must be a table")
    _only(table, _CLUSTER_KEYS, at)

    def rate(key: str) -> float | None:
        text = _read_value(table, key, str, None, at)
        try:
            return None if text is None else float(parse_flow(text))
        except UsageError as error:
            raise _ConfigError(f'{at}{key} must be a rate like "125MB/s"') from error

    timeout = _read_value(table, "timeout", str, None, at)
    try:
        timeout_seconds = None if timeout is None else parse_timeout(timeout)
    except UsageError as error:
        raise _ConfigError(f'{at}timeout must be a time like "30s"') from error
    metrics = _read_value(table, "metrics", str, None, at)
    try:
        metrics = metrics and parse_metrics(metrics, path.parent)
    except UsageError as error:
        raise _ConfigError(f'{at}metrics must be like ":9464" or "/folder/trimtab.prom"') from error
    color = _read_value(table, "color", str, None, at)
    if color not in (None, *COLORS):
        raise _ConfigError(f"{at}color is none of {', '.join(COLORS)}")
    config = _read_value(table, "command_config", str, None, at)
    bootstrap = _read_value(table, "bootstrap", str, None, at)
    if not bootstrap:
        raise _ConfigError(f'{at}bootstrap is missing: write it like "broker-1:9092"')
    return ClusterSettings(
        bootstrap=bootstrap,
        command_config=(path.parent / paths.expand_user(config)) if config else None,
        read_only=_read_value(table, "read_only", bool, False, at),
        snapshots=_read_value(table, "snapshots", str, None, at),
        in_capacity_bytes_per_s=rate("in_capacity"),
        out_capacity_bytes_per_s=rate("out_capacity"),
        timeout_seconds=timeout_seconds,
        addresses=_addresses(_read_value(table, "addresses", dict, {}, at), f"{at}addresses"),
        proxy=_proxy(_read_value(table, "proxy", str, None, at), f"{at}proxy"),
        color=color,
        metrics=metrics,
    )


def _addresses(table: Mapping[str, Any], at: str) -> dict[str, str]:
    for pair in table.items():
        if not all(isinstance(address, str) and _SERVER.fullmatch(address) for address in pair):
            raise _ConfigError(f'{at} must be like {{"broker-1:9092" = "localhost:19092"}}')
    return {server.lower(): to for server, to in table.items()}


def _proxy(url: str | None, at: str) -> str | None:
    if url is not None and not _PROXY.fullmatch(url):  # it may hold a password, and is not shown
        raise _ConfigError(f'{at} must be a URL like "socks5://localhost:1080"')
    return url
