"""What may be chosen as a plan is applied: adaptive or lower rates, elections, checks to allow."""

from __future__ import annotations

from core.plan.checks.catalogue import Finding
from core.plan.estimate.estimate import Estimate
from core.plan.estimate.estimate_text import format_per_side_rates
from core.run.journal.rates import RateBounds
from core.units import counted, format_duration
from tui.dialogs.checkboxes import Tick
from tui.plan.drawing.throttle_table import bounds_words


class AllowCheck(Tick):
    """The findings of one check, that stand in the way until they are allowed by its id."""

    def __init__(self, *findings: Finding) -> None:
        self.finding, self.findings = findings[0], findings
        super().__init__(f"allow {self.finding.id}", " ".join(one.sentence for one in findings))

    @property
    def subject(self) -> str:
        return self.word

    def renew(self, other: Tick) -> bool:
        """Is not ticked any more once there is something that was not there to be read."""
        assert isinstance(other, AllowCheck)
        super().renew(other)
        more = {one.about for one in other.findings} - {one.about for one in self.findings}
        self.finding, self.findings = other.finding, other.findings
        if more and self.ticked:
            self.turn(False)
            return True
        return False

    @property
    def allowed(self) -> bool:
        return self.ticked


class AdaptRate(Tick):
    """Whether the rate is to adapt itself (`--throttle auto`)."""

    def __init__(self, bounds: RateBounds) -> None:
        super().__init__("adapt the rate", f"{bounds_words(bounds)}, by how long producers wait")
        self.bounds = bounds

    def renew(self, other: Tick) -> bool:
        """Keep the bounds that were ticked."""
        assert isinstance(other, AdaptRate)
        if not self.ticked:
            self.bounds = other.bounds
            super().renew(other)
        return False


class ElectLeaders(Tick):
    """Whether preferred leaders are elected at the end (`--elect`): who stays leads on without."""

    def __init__(self, leaders: int, *, ticked: bool) -> None:
        change = "changes" if leaders == 1 else "change"
        super().__init__("elect leaders", f"{counted(leaders, 'leader')} {change} at the end")
        self.ticked = ticked


class PauseIfRemoved(Tick):
    """Whether the run pauses when its throttles are taken away time and again.

    It is `--if-throttles-removed pause`; unticked is `hold`.
    """

    def __init__(self, *, ticked: bool) -> None:
        super().__init__("pause if throttles are removed", "else moves wait to hold the rate")
        self.ticked = ticked


class SpareBrokers(Tick):
    """Whether brokers that need less of the rate are to get less (`--within` does that, too)."""

    def __init__(self, estimate: Estimate) -> None:
        takes = format_duration(estimate.seconds)
        super().__init__(
            "spare brokers",
            f"{format_per_side_rates(estimate.per_side_rates)} Then it takes {takes}.",
        )
        self.estimate = estimate

    def renew(self, other: Tick) -> bool:
        """Take another time; rates that were ticked stay those that were read."""
        assert isinstance(other, SpareBrokers)
        if not self.ticked or other.estimate.per_side_rates == self.estimate.per_side_rates:
            self.estimate = other.estimate
            super().renew(other)
        return False
