"""Session: what the dashboard knows. The event loop owns it; only message handlers change it."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from core.plan.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from core.autopilot.daemon import AutopilotStatus
    from core.cluster.connect import Address, Connection
    from core.cluster.documents.cluster_document import DocumentGroup
    from core.cluster.drills.drill import DrillTarget
    from core.cluster.metadata import TopicPartition
    from core.cluster.state import ClusterState
    from core.errors import TrimtabError
    from core.load.load import Load
    from core.load.snapshot.format import LoadSnapshot
    from core.load.snapshot.kept import Kept
    from core.plan.estimate.calibration import Calibration
    from core.run.external.moves import ForeignMove
    from core.run.reporting.views import RunView
    from core.watch.client_health.report import ProbeReport

DEFAULT_RATE_BYTES_PER_S = 50_000_000
KEPT_TROUBLES = 5
SILENT_SECONDS = 4.0
"""A source that has not been renewed for so long is silent, if it is renewed often."""
PATIENCE_SECONDS = 3.5
"""An answer that is due is waited for so long: with a second between questions, and a moment to
draw it, a cluster that is lost is said to be within five."""

_STEPS = (5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400)


def age_words(seconds: float) -> str:
    """Return an age in steps: `now`, `5 s`, `10 s`, `30 s`, `1 min`, …, `1 d`, `2 d`."""
    step = max((step for step in _STEPS if step <= seconds), default=0)
    if not step:
        return "now"
    if step < 60:
        return f"{step} s"
    if step < 3600:
        return f"{step // 60} min"
    if step < 86400:
        return f"{step // 3600} h"
    return f"{int(seconds // 86400)} d"


def seconds_to_next_age(seconds: float) -> float:
    """Return how long `age_words` keeps saying the same."""
    for step in _STEPS:
        if seconds < step:
            return step - seconds
    return 86400 - math.fmod(seconds, 86400)


@dataclass(frozen=True, slots=True)
class Freshness:
    """When one source's data was true (monotonic seconds) and how often it should be renewed."""

    at: float
    interval_seconds: float
    due: float | None = None
    """When its source is asked anew; None where nobody says."""
    patience_seconds: float = PATIENCE_SECONDS
    """For how long an answer that is due may be waited for before its source counts as silent."""

    def age(self, now: float) -> float:
        return max(0.0, now - self.at)

    def stale(self, now: float) -> bool:
        """Return whether it is older than twice its interval."""
        return self.age(now) > 2 * self.interval_seconds

    def silent(self, now: float, heard_at: float = -math.inf) -> bool:
        """Return whether its source cannot be answering: it was asked, and has told nothing since.

        `heard_at` is when anything came from it last, if that is known: a large answer takes long.
        """
        return now > self._silent_from(heard_at)

    def _silent_from(self, heard_at: float) -> float:
        if self.due is None:
            return self.at + max(2 * self.interval_seconds, SILENT_SECONDS)
        return max(self.due, heard_at) + self.patience_seconds

    def next_change(self, now: float, heard_at: float = -math.inf) -> float:
        """Return seconds until the age reads differently, turns stale, or its source is silent."""
        age = self.age(now)
        turns = (2 * self.interval_seconds - age, self._silent_from(heard_at) - now)
        return min([seconds_to_next_age(age), *(left for left in turns if left > 0)])


@dataclass(frozen=True, slots=True)
class PlanHistory:
    """The plan being edited, with what undo and redo lead to."""

    plan: Plan = field(default_factory=Plan)
    undo: tuple[Plan, ...] = ()
    redo: tuple[Plan, ...] = ()

    def edited(self, plan: Plan) -> PlanHistory:
        """Return the history with one more edit; an edit that changes nothing adds nothing."""
        if plan.moves == self.plan.moves:
            return self
        return PlanHistory(plan, (*self.undo, self.plan), ())

    def undone(self) -> PlanHistory:
        if not self.undo:
            return self
        return PlanHistory(self.undo[-1], self.undo[:-1], (*self.redo, self.plan))

    def redone(self) -> PlanHistory:
        if not self.redo:
            return self
        return PlanHistory(self.redo[-1], (*self.undo, self.plan), self.redo[:-1])


@dataclass(frozen=True, slots=True)
class Highlight:
    """Partitions that the map shows marked, and what they are of: a consumer group's id."""

    of: str
    partitions: frozenset[TopicPartition]

    @property
    def topics(self) -> frozenset[str]:
        return frozenset(tp.topic for tp in self.partitions)


@dataclass(frozen=True, eq=False, slots=True)
class PastMoment:
    """The cluster as it was; sizes of replicas were not kept, its load where it was published."""

    at: datetime
    state: ClusterState
    load: Load | None = None
    snapshot: LoadSnapshot | None = None
    """What was published last then."""
    observed_at: datetime | None = None
    """When `state` was seen, the last time before `at`; None where it is placed as it is now."""
    by_hours: bool = False
    """Whether it is a published hour; keys step by hours then, else by what happened."""


class RecordedMoments(Protocol):
    """The recorded timeline, as far as the map of the past steps through it."""

    def moment_after(self, at: datetime, steps: int) -> datetime:
        """Return when so many happenings later, or earlier, than `at` all of it had happened."""

    def described_at(self, at: datetime) -> str:
        """Return what had just happened at a moment; "" for nothing."""


@dataclass(frozen=True, slots=True)
class PendingRun:
    """A plan that a run was started with, and that stays until the run's own checks are passed."""

    run: str
    plan: Plan


def _plan_without(plan: Plan, handed: Plan) -> Plan:
    """Return the moves of a plan that are not the same in another."""
    moves = tuple(move for move in plan if move != handed.by_partition.get(move.tp))
    return replace(plan, moves=moves)


MARKED = "config.toml says read_only"


@dataclass(slots=True)
class Session:
    """Everything that screens draw from. `load` always has the length of `state`."""

    cluster_name: str
    writable: bool = False
    read_only_reason: str = "start with --write"
    read_only_servers: frozenset[str] = frozenset()
    """Brokers of all clusters that config.toml marks read_only."""
    cluster_color: str | None = None
    """What config.toml marks this cluster with, of `core.settings.COLORS`."""
    address: Address | None = None
    connection: Connection | None = None
    awaits_password: bool = False
    """Whether the cluster is not asked yet, as a password is missing."""
    ground: DrillTarget | None = None
    """Where things may be broken on purpose; None on any cluster that was not made for it."""
    snapshots: str | None = None
    state: ClusterState | None = None
    load: Load | None = None
    snapshot: LoadSnapshot | None = None
    metadata_age: Freshness | None = None
    load_age: Freshness | None = None
    history: PlanHistory = field(default_factory=PlanHistory)
    rate_bytes_per_s: int = DEFAULT_RATE_BYTES_PER_S
    """The throttle that a plan would be applied with; see `choose_rate` and `propose_rate`."""
    rate_chosen: bool = False
    rate_steps: tuple[int, ...] = ()
    """Steps through the rate table that were asked for before there was one."""
    pending_run: PendingRun | None = None
    """What was handed to a run of which it is not known yet whether it begins."""
    run: RunView | None = None
    runs_known: bool = False
    """Whether it has been looked which runs there are: until then, None above is not known."""
    external_moves: tuple[ForeignMove, ...] = ()
    """Moves in flight that no run of this machine is carrying out."""
    making_plan: bool = False
    """Whether a whole plan is being made that will take the place of the one being edited."""
    cursor_at: tuple[int, str | None] | None = None
    """The broker and topic that the map's cursor is on."""
    recorded: RecordedMoments | None = None
    """What was read of the timeline last."""
    past_moment: PastMoment | None = None
    """The cluster as it was at the moment that Map and Load show; None while they show what is."""
    kept: Kept | None = None
    """The snapshots that were kept when it was last looked: what is in one does not change."""
    highlight: Highlight | None = None
    """What the map shows marked."""
    groups: tuple[DocumentGroup, ...] | None = None
    """Consumer groups with their lag; None until they are read, and where they may not be."""
    clients: ProbeReport | None = None
    """What clients feel at each broker; None while no probe runs."""
    autopilot: AutopilotStatus | None = None
    """How this cluster's autopilot stands; None where there never was one."""
    calibration: Calibration | None = None
    """What earlier runs on this cluster have taught about times."""
    problem: TrimtabError | None = None
    """Why the cluster cannot be read just now; None while it can."""
    troubles: tuple[TrimtabError, ...] = ()
    """What went wrong beside that, the newest last; kept so that it can be read again."""
    has_new_trouble: bool = False
    """Whether the newest trouble has not been shown in full yet."""
    load_enabled: bool = True
    """False when load is neither collected nor aggregated, as asked."""
    run_starting: threading.Event | None = None
    """Set once it is known whether the run being started with the plan stands."""
    paused: bool = False
    now: float = 0.0
    """Monotonic seconds at which screens were last asked to draw."""

    @property
    def plan(self) -> Plan:
        return self.history.plan

    @property
    def plan_to_keep(self) -> Plan:
        """Return the plan without what was handed to a run that may yet begin."""
        handed = self.pending_run
        return self.plan if handed is None else _plan_without(self.plan, handed.plan)

    @property
    def run_partitions(self) -> set[TopicPartition]:
        """Return the partitions that the newest run is moving, while it goes on."""
        run = self.run
        if run is None or (run.state.ended and run.leftovers is None):
            return set()
        return {move.tp for move in run.moves}

    @property
    def problems(self) -> tuple[TrimtabError, ...]:
        """Return all that went wrong, the newest first."""
        now = (self.problem,) if self.problem is not None else ()
        return (*now, *reversed(self.troubles))

    def take_trouble(self, error: TrimtabError) -> None:
        self.troubles, self.has_new_trouble = (*self.troubles, error)[-KEPT_TROUBLES:], True

    def edit(self, plan: Plan) -> None:
        """Make `plan` the plan being edited; the one before can be had back with undo."""
        self.history = self.history.edited(plan)

    def choose_rate(self, rate_bytes_per_s: int) -> None:
        """Take the user's own choice; nothing is proposed over it until the plan is applied."""
        self.rate_bytes_per_s, self.rate_chosen = rate_bytes_per_s, True

    def propose_rate(self, rate_bytes_per_s: int | None) -> None:
        """Take the rate that suits the plan, unless the user has chosen one."""
        if rate_bytes_per_s is not None and not self.rate_chosen:
            self.rate_bytes_per_s = rate_bytes_per_s

    def take_rates(self, rates: Sequence[int], proposed: int | None) -> None:
        """Take the rate that suits the plan, then the steps that waited for the table of rates."""
        self.propose_rate(proposed)
        if self.rate_steps and rates:
            nearest = min(rates, key=lambda rate: abs(rate - self.rate_bytes_per_s))
            at = rates.index(nearest)
            for step in self.rate_steps:
                at = min(max(at + step, 0), len(rates) - 1)
            self.choose_rate(rates[at])
        self.rate_steps = ()

    def take_run(self, run: RunView | None) -> bool:
        """Take what the newest run has come to; return whether it refused what it was handed."""
        self.run = run
        handed = self.pending_run
        if run is None or handed is None or run.run < handed.run:
            return False
        ours = run.run == handed.run
        if not ours or run.passed_preflight or run.state.ended:
            self.pending_run = None
        if ours and run.passed_preflight:  # what was planned since stays
            left = _plan_without(self.plan, handed.plan)
            if len(left):
                self.edit(left)
            else:
                self.clear_plan()
        return ours and run.state.ended and not run.passed_preflight

    def clear_plan(self) -> None:
        """Start an empty plan."""
        self.rate_chosen, self.rate_steps = False, ()
        cluster_id = self.state.cluster_id if self.state else None
        self.edit(Plan(cluster_id))

    @property
    def heard_at(self) -> float:
        """Return when any broker last answered anything (monotonic seconds); -inf if unknown."""
        return -math.inf if self.connection is None else self.connection.last_answer_at()

    def expect_answer(self, now: float) -> None:
        """Have the next answer be due from now on: nothing was asked in a pause."""
        if self.metadata_age is not None:
            self.metadata_age = replace(self.metadata_age, due=now)

    @property
    def lost_since(self) -> datetime | None:
        """Return when what is shown was true, where the cluster does not answer if asked."""
        if self.state is None or self.metadata_age is None:
            return None
        silent = not self.paused and self.metadata_age.silent(self.now, self.heard_at)
        return self.state.fetched_at if silent or self.problem is not None else None

    @property
    def why_not_applicable(self) -> str:
        """Return why nothing can be applied to the cluster just now, "" where it can."""
        run = self.run
        if why := self.read_only_words:
            return why
        if run is not None and not run.state.ended:
            return f"Run {run.run} is in progress: wait for its end, or cancel it."
        if self.pending_run is not None:
            return f"Run {self.pending_run.run} is just being started with the plan."
        if self.problem is not None:
            return f"{self.cluster_name} does not answer: {self.problem.title}"
        return ""

    @property
    def read_only_words(self) -> str:
        """Return why nothing may be changed, as a sentence; "" where it may."""
        return "" if self.writable else f"Read-only: {self.read_only_reason}."

    @property
    def lost_words(self) -> str:
        """Return in words since when the cluster does not answer; "" while it does."""
        since = self.lost_since
        return f"not answering since {since.astimezone():%H:%M:%S}" if since else ""

    @property
    def next_age_change(self) -> float | None:
        """Return seconds until an age on the screen reads differently; None when nothing ages."""
        ages = [age for age in (self.metadata_age, self.load_age) if age is not None]
        return min((age.next_change(self.now, self.heard_at) for age in ages), default=None)
