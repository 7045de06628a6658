"""What a run is created with: its options, and the first record of its journal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from core.cluster.connect import Address
from core.cluster.known_names import display_name
from core.errors import UsageError
from core.load.load_paths import is_address
from core.paths import expand_user
from core.plan.plan import Plan
from core.run.audit import requester
from core.run.journal.journal import Journal, JournalError, journal_path, remove_journal
from core.run.journal.move_state import move_to_json
from core.run.journal.rates import RateBounds, rates_to_json
from core.run.journal.records import Kind, Record
from core.run.journal.throttle_values import Key
from core.settings import load_settings
from core.units import format_time

BATCH_SIZE = 200
"""KRaft caps one operation at 10,000 records; a few hundred partitions stay far below."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a plan is to be carried out; `allow` are the ids of checks that may speak against it."""

    rate_bytes_per_s: int
    cluster_name: str | None = None
    allow: frozenset[str] = frozenset()
    override_rates: bool = False
    """Set our rate even over a lower one of somebody else's."""
    batch_size: int = BATCH_SIZE
    batches: tuple[tuple[int, ...], ...] = ()
    """Which moves go together, as indices of the plan; without, `batch_size` in its order."""
    long: frozenset[int] = frozenset()
    """Moves that are known to take longer than their batch."""
    produced: Mapping[int, float] = field(default_factory=dict)
    """What is produced to the partitions of moves, bytes/s, by index; 0 and unknown left out."""
    max_extra_bytes: int | None = None
    """What a destination holds at most of moves in flight; a larger one goes there alone."""
    per_side_rates: Mapping[Key, int] = field(default_factory=dict)
    """Lower rates of brokers and sides for which they will do, as long as the plan stays."""
    auto: RateBounds | None = None
    """Adapt the rate between these; `rate_bytes_per_s` is what was expected."""
    start_at: datetime | None = None
    retention_ms: int | None = None
    """Retention of the moving topics while they move; put back afterwards."""
    elect: bool = False
    """Elect the preferred leaders of what has moved at the end."""
    snapshots: str | None = None
    """Where its load is published, if not with this machine's own."""
    pause_if_removed: bool = False
    """Pause when somebody takes the run's throttles away again and again; else it holds its rate by
    what begins."""

    metrics: str | None = None
    """Where its process publishes metrics, as `core.settings.parse_metrics` has it."""

    def to_json(self) -> dict[str, Any]:
        snapshots = self.snapshots
        if snapshots and not is_address(snapshots):
            snapshots = str(expand_user(snapshots).absolute())
        optional = {
            "most_extra_bytes": self.max_extra_bytes,
            "apart": rates_to_json(self.per_side_rates) or None,
            "auto": self.auto and self.auto.to_json(),
            "at": self.start_at and format_time(self.start_at),
            "retention": None if self.retention_ms is None else {"ms": self.retention_ms},
            "snapshots": snapshots,
            "elect": True if self.elect else None,
            "if_throttles_removed": "pause" if self.pause_if_removed else None,
            "metrics": self.metrics,
        }
        return {
            "rate_bytes_per_s": self.rate_bytes_per_s,
            "allow": sorted(self.allow),
            "override_rates": self.override_rates,
            "batch_size": self.batch_size,
        } | {name: value for name, value in optional.items() if value is not None}


def create_journal(
    address: Address,
    cluster_id: str,
    plan: Plan,
    options: RunOptions,
    estimate: Mapping[str, Any] | None,
    *,
    at: datetime,
) -> Journal:
    """Make the journal of a new run, with everything that was asked, and name the run.

    `at` is by the cluster's clock. The name is its month, day and time in UTC; a second one in a
    second gets -2.
    """
    stem = at.astimezone(UTC).strftime("%m%d-%H%M%S")
    for attempt in range(1, 100):
        run = stem if attempt == 1 else f"{stem}-{attempt}"
        try:
            journal = Journal.create(journal_path(cluster_id, run))
        except FileExistsError:
            continue
        created = {
            "run": run,
            "cluster_id": cluster_id,
            "cluster_name": options.cluster_name or display_name(cluster_id),
            "address": address_to_json(without_configured_timeout(address, options.cluster_name)),
            "moves": _moves(plan, options),
            "notes": list(plan.notes),
            "options": options.to_json(),
            "estimate": estimate,
            **requester(),
        }
        try:
            journal.write(at, Kind.CREATED, created)
        except BaseException:
            journal.close()
            remove_journal(journal.path)
            raise
        return journal
    raise JournalError(f"There are too many runs named {stem}.", next="Try again in a second.")


def address_to_json(address: Address) -> dict[str, Any]:
    config, timeout = address.command_config, address.timeout_seconds
    return {
        "bootstrap": address.bootstrap,
        "command_config": str(config.absolute()) if config else None,
    } | ({} if timeout is None else {"timeout_seconds": timeout})


def address_from_json(p: Mapping[str, Any]) -> Address:
    config = p["command_config"]
    return Address(
        p["bootstrap"],
        Path(config) if config else None,
        timeout_seconds=p.get("timeout_seconds"),
    )


def without_configured_timeout(address: Address, cluster_name: str | None) -> Address:
    """Return `address` without the timeout where it is config.toml's: that is read each time."""
    is_configured = address.timeout_seconds == _configured_timeout(address, cluster_name)
    return replace(address, timeout_seconds=None) if is_configured else address


def with_configured_timeout(address: Address, cluster_name: str | None) -> Address:
    """Return `address` with config.toml's timeout unless one was asked for with a flag."""
    if address.timeout_seconds is not None:
        return address
    return replace(address, timeout_seconds=_configured_timeout(address, cluster_name))


def _configured_timeout(address: Address, cluster_name: str | None) -> float | None:
    """Return what config.toml says, None also where that cannot be read."""
    try:
        return load_settings().timeout_of(cluster_name, address.bootstrap)
    except UsageError:
        return None


def with_configured_metrics(options: RunOptions, address: Address) -> RunOptions:
    """Return `options` with config.toml's place for metrics unless one was asked for."""
    if options.metrics is not None:
        return options
    try:
        about = load_settings().about(options.cluster_name, address.bootstrap).values()
    except UsageError:
        return options
    return replace(
        options, metrics=next((cluster.metrics for cluster in about if cluster.metrics), None)
    )


def _moves(plan: Plan, options: RunOptions) -> list[dict[str, Any]]:
    batch_of = {index: number for number, batch in enumerate(options.batches) for index in batch}
    return [
        move_to_json(move)
        | ({"batch": batch_of[index]} if index in batch_of else {})
        | ({"long": True} if index in options.long else {})
        | ({"produced": options.produced[index]} if index in options.produced else {})
        for index, move in enumerate(plan)
    ]


def address_of(records: Iterable[Record]) -> Address:
    """Return where a run's cluster was last reached, by its journal, with the timeout asked for."""
    addresses = [
        record.payload["address"]
        for record in records
        if record.kind in (Kind.CREATED, Kind.STARTED) and record.payload.get("address")
    ]
    timeouts = [entry["timeout_seconds"] for entry in addresses if "timeout_seconds" in entry]
    address = address_from_json(addresses[-1])
    return replace(address, timeout_seconds=timeouts[-1] if timeouts else None)
