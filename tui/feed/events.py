"""Events that the feed delivers to the dashboard: immutable, from any thread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from core.errors import TrimtabError
from core.load.load import Load
from tui.session import Freshness

if TYPE_CHECKING:
    from core.autopilot.daemon import AutopilotStatus
    from core.cluster.connect import Connection
    from core.cluster.documents.cluster_document import DocumentGroup
    from core.cluster.drills.drill import DrillTarget
    from core.cluster.state import ClusterState
    from core.load.snapshot.format import LoadSnapshot
    from core.plan.estimate.calibration import Calibration
    from core.run.reporting.views import RunView
    from core.watch.client_health.report import ProbeReport


@dataclass(frozen=True, slots=True)
class Connected:
    """The cluster was opened."""

    connection: Connection


@dataclass(frozen=True, slots=True)
class DrillTargetDetected:
    """The cluster was made for drills."""

    ground: DrillTarget


@dataclass(frozen=True, slots=True)
class PictureChanged:
    """A state and the load laid upon it; both or either are new."""

    state: ClusterState
    load: Load
    snapshot: LoadSnapshot | None
    metadata_age: Freshness | None
    load_age: Freshness | None


@dataclass(frozen=True, slots=True)
class ClusterLost:
    """The cluster could not be read; the threads go on trying."""

    error: TrimtabError


@dataclass(frozen=True, slots=True)
class RunChanged:
    """The newest run of this cluster, or None when there is none."""

    run: RunView | None


@dataclass(frozen=True, slots=True)
class CalibrationChanged:
    """What the runs on this cluster teach about how long plans take."""

    calibration: Calibration


@dataclass(frozen=True, slots=True)
class GroupsChanged:
    """The consumer groups of this cluster, with their lags; None while not all may be known."""

    groups: tuple[DocumentGroup, ...] | None


@dataclass(frozen=True, slots=True)
class ClientsChanged:
    """What clients of this cluster feel, as its probe reports it; None while none runs."""

    report: ProbeReport | None


@dataclass(frozen=True, slots=True)
class AutopilotChanged:
    """How the autopilot of this cluster stands; its switch was set once, at least."""

    status: AutopilotStatus


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something beside the cluster went wrong: said once, calmly."""

    error: TrimtabError


Event: TypeAlias = (
    Connected
    | DrillTargetDetected
    | PictureChanged
    | ClusterLost
    | RunChanged
    | CalibrationChanged
    | GroupsChanged
    | ClientsChanged
    | AutopilotChanged
    | Trouble
)
Deliver: TypeAlias = Callable[[Event], object]
