"""What every command is given: the target cluster, and what may be done to it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from core.cli.common.options import refuse_together
from core.cli.common.output import say
from core.cli.common.prompts import ask_passwords, confirm
from core.cluster.capacity import configured_capacity
from core.cluster.connect import Address, Connection, connect
from core.cluster.known_names import display_name, known_names, own_name
from core.errors import RefusedError, UsageError

if TYPE_CHECKING:
    from core.cluster.state import ClusterState
    from core.load.load import Load
    from core.settings import Settings


@dataclass(frozen=True, slots=True)
class Target:
    """Which cluster is meant: an address, or a saved document; and where its load is published."""

    address: Address | None = None
    from_file: Path | None = None
    name: str | None = None
    snapshots: str | None = None
    read_only: bool = False
    named: bool = False
    """Whether the command line itself names it, and not the environment."""
    timeout_seconds: float | None = None
    """As a flag or the environment says, whatever cluster that is for."""
    color: str | None = None
    """What config.toml marks it with, of `core.settings.COLORS`."""
    read_only_servers: frozenset[str] = frozenset()
    """Brokers of all clusters that are read_only: this one may turn out to have one of them."""

    def __post_init__(self) -> None:
        if self.snapshots:
            from core.load.load_paths import is_address, root_of

            if is_address(self.snapshots):
                root_of(self.snapshots)  # one with a secret in it goes nowhere from here

    @classmethod
    def choose(
        cls,
        *,
        bootstrap: str | None,
        cluster_name: str | None,
        command_config: Path | None,
        from_file: Path | None,
        snapshots: str | None,
        timeout: str | None = None,
    ) -> Target:
        """Return the target of flags over environment (`TRIMTAB_…`) over config.toml.

        What config.toml says of a cluster holds by whichever name or address it is reached.
        """
        from core.settings import load_settings, parse_timeout

        flagged = bool(bootstrap or cluster_name)
        live = {
            "bootstrap": bootstrap,
            "cluster": cluster_name,
            "command-config": command_config,
            "snapshots": snapshots,
        }
        for option, value in live.items():
            refuse_together(
                {"--from": from_file, f"--{option}": value or None},
                "Work either offline on a document or on the cluster.",
            )
        if not flagged:
            # A name in the environment must not go with another cluster's address in a flag.
            bootstrap = os.environ.get("TRIMTAB_BOOTSTRAP") or None
            cluster_name = os.environ.get("TRIMTAB_CLUSTER") or None
            login = os.environ.get("TRIMTAB_COMMAND_CONFIG")
            command_config = command_config or (Path(login) if login else None)
        timeout = timeout or os.environ.get("TRIMTAB_TIMEOUT") or None
        timeout_seconds = None if timeout is None else parse_timeout(timeout)
        snapshots = snapshots or os.environ.get("TRIMTAB_SNAPSHOTS") or None
        if from_file:
            return cls(from_file=from_file, snapshots=snapshots)
        if not bootstrap and cluster_name is None:
            return cls(snapshots=snapshots, timeout_seconds=timeout_seconds)
        settings = load_settings()
        if bootstrap and cluster_name:
            _check_same_cluster(bootstrap, cluster_name, settings)
        bootstrap = bootstrap or settings.cluster(cluster_name or "").bootstrap
        name = cluster_name or settings.name_of(bootstrap)
        address = Address(bootstrap, command_config, timeout_seconds=timeout_seconds)
        target = cls._configured(settings, address, name, snapshots)
        return replace(target, named=flagged, timeout_seconds=timeout_seconds)

    @classmethod
    def of(cls, name: str, settings: Settings, timeout_seconds: float | None = None) -> Target:
        """Return the cluster that has this name in config.toml; raises UsageError for none."""
        bootstrap = settings.cluster(name).bootstrap
        address = Address(bootstrap, timeout_seconds=timeout_seconds)
        snapshots = os.environ.get("TRIMTAB_SNAPSHOTS") or None
        target = cls._configured(settings, address, name, snapshots)
        return replace(target, named=True, timeout_seconds=timeout_seconds)

    @classmethod
    def _configured(
        cls, settings: Settings, address: Address, name: str | None, snapshots: str | None
    ) -> Target:
        about = settings.about(name, address.bootstrap).values()
        # A name that only the command line gives may be another cluster's the next time.
        kept = name if name in settings.clusters else None
        return cls(
            replace(configured(address, name, settings), name=kept),
            name=name,
            snapshots=snapshots
            or next((cluster.snapshots for cluster in about if cluster.snapshots), None),
            read_only=any(cluster.read_only for cluster in about),
            color=next((cluster.color for cluster in about if cluster.color), None),
            read_only_servers=settings.read_only_servers,
        )

    def display_name(self, cluster_id: str) -> str:
        """Return the name of this cluster, which is what one types to confirm."""
        return self.name or display_name(cluster_id)

    @property
    def label(self) -> str:
        """Return what it is called before it was asked for its id."""
        if self.name or self.from_file is None:
            return self.name or (self.address.bootstrap if self.address else "")
        return self.from_file.stem

    @property
    def place(self) -> str:
        """Return where it is read: the brokers to ask first, or a file."""
        return self.address.bootstrap if self.address else str(self.from_file)


@dataclass(frozen=True, slots=True)
class Context:
    """The invocation: built once by the root command, passed with `click.pass_obj`."""

    target: Target
    write: bool
    no_load: bool
    theme: str | None
    ascii_only: bool
    mouse: bool
    open_dashboard: Callable[[Context], None]
    is_process: bool = False
    """Whether this command is all that its process does."""
    heading: str = ""
    """What its messages begin with, where several clusters are asked at once."""
    is_demo: bool = False
    """Whether the cluster was made for this invocation, and ends with it."""
    built: float = field(default_factory=time.monotonic)

    @property
    def began(self) -> float:
        """Return when the command began (monotonic seconds), what Python took to start included."""
        from core.daemons.process import age_seconds

        age = age_seconds() if self.is_process else None
        return self.built if age is None else time.monotonic() - age

    def say(self, message: str) -> None:
        """Tell the user something about this cluster on stderr."""
        say(f"{self.heading}{message}")

    def require_target(self) -> None:
        if self.target.address is None and self.target.from_file is None:
            raise UsageError(
                "No cluster is given.",
                next="Give -b HOST:PORT, --cluster NAME (config.toml) or --from FILE; "
                "`trimtab demo` needs none.",
            )

    def require_address(self) -> Address:
        """Return the live cluster's address, passwords asked for; raises UsageError without one."""
        if self.target.address is None:
            raise UsageError(
                "This needs a live cluster.", next="Give -b HOST:PORT or --cluster NAME."
            )
        ask_passwords(self.target.address)
        return self.target.address

    def require_writable(self, state: ClusterState | None = None) -> None:
        """Refuse a cluster that config.toml marks read_only, by its name or any of its brokers."""
        target = self.target
        marked = state is not None and state.has_any(target.read_only_servers)
        if target.address is not None and (target.read_only or marked):
            raise RefusedError(
                f"{target.name or target.address.bootstrap} is marked read_only.",
                next="Change that in config.toml.",
            )

    @contextmanager
    def connected(self) -> Iterator[Connection]:
        with connect(self.require_address()) as connection:
            yield connection
            for broker, address in connection.silent_brokers().items():
                self.say(
                    f"Broker {broker} ({address}) does not answer: what only it knows is "
                    "missing here."
                )

    @contextmanager
    def described(self, *, to_change: bool) -> Iterator[tuple[Connection, ClusterState]]:
        """Open the live cluster, described; raises RefusedError for a read_only one `to_change`."""
        if to_change:
            self.require_writable()
        with self.connected() as connection:
            state = connection.client.describe_cluster()
            if to_change:
                self.require_writable(state)
            yield connection, state

    def confirm(self, cluster_id: str, verb: str, doing: str, otherwise: str) -> None:
        """Ask for the cluster's name before it is changed; see `prompts.confirm`."""
        confirm(self.target.display_name(cluster_id), verb, doing, otherwise)

    def fetch_cluster_id(self) -> str:
        with self.connected() as connection:
            return connection.client.describe_cluster().cluster_id

    def resolve_cluster_id(
        self, cluster_id: str | None, known: Iterable[str], where: str, otherwise: str
    ) -> str:
        """Return the cluster named by id, name or address, or the only one of those `known`.

        `where` says of what several or none are known, `otherwise` what to do where none is.
        """
        if cluster_id is not None:
            return known_names().get(cluster_id, cluster_id)
        if self.target.address is not None:
            return self.fetch_cluster_id()
        ids = sorted(known)
        if len(ids) == 1:
            return ids[0]
        raise UsageError(
            f"Which cluster? {where} {len(ids) or 'none'}.",
            next=f"Give --cluster-id {' or '.join(map(own_name, ids))}." if ids else otherwise,
        )

    def picture(self) -> tuple[ClusterState, Load]:
        """Return the cluster with sizes, and its load, of a file or live; raises UsageError."""
        from core.cluster.observer import fetch_cluster_state
        from core.load.load_source import newest_load, read_saved_cluster

        self.require_target()
        if self.target.from_file is not None:
            state, load = read_saved_cluster(self.target.from_file)
            return report_unknown(state), load
        with self.connected() as connection:
            state = report_unknown(fetch_cluster_state(connection.client))
        return state, newest_load(state, self.target.snapshots)


def report_unknown(state: ClusterState, report: Callable[[str], None] = say) -> ClusterState:
    """Say what of the cluster may not be seen; return it. Who must know the moves refuses later."""
    if state.moves_unknown:
        report(f"What is in flight is not shown: {state.moves_unknown}")
    if state.hidden is not None and not state.hidden.is_complete:
        report(state.hidden.advice)
    return state


def configured(address: Address, name: str | None, settings: Settings) -> Address:
    """Return `address` with what config.toml says of the cluster where itself says nothing."""
    about = settings.about(name, address.bootstrap).values()
    reached = (cluster.command_config for cluster in about if cluster.command_config)
    return replace(
        address,
        command_config=address.command_config or next(reached, None),
        capacity=configured_capacity(settings, name, address.bootstrap),
        balancer_topics=settings.balancer_topics,
        timeout_seconds=settings.timeout_of(name, address.bootstrap)
        if address.timeout_seconds is None
        else address.timeout_seconds,
    )


def _check_same_cluster(bootstrap: str, name: str, settings: Settings) -> None:
    own, known = settings.about(None, bootstrap), settings.clusters.get(name)
    if name in own or (known is None and not own):
        return
    of_name = "has no address in config.toml" if known is None else f"is {known.bootstrap}"
    of_address = f" ({', '.join(own)})" if own else ""
    raise UsageError(
        f"Two clusters are named: {name} {of_name}, and -b says {bootstrap}{of_address}.",
        next="Give only one of them, also in TRIMTAB_BOOTSTRAP and TRIMTAB_CLUSTER. If the "
        "cluster's addresses changed, update config.toml.",
    )
