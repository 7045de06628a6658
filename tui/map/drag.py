"""Drag: replicas carried over the map to another broker. Pure; a drop returns a Plan.

A replica moves only within its own row, so all of it is which broker is underneath.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from core.cluster.metadata import TopicPartition
from core.cluster.state import ClusterState
from core.load.load import Load
from core.plan.checks.catalogue import Finding, Severity
from core.plan.plan import Plan


@dataclass(frozen=True, eq=False)
class Drag:
    """What is carried: for each partition the broker it was lifted from, and where it is now.

    `findings` hold for each partition what speaks against each broker; they are found when the
    replica is lifted, and anew when what they rest on has changed.
    """

    sources: Mapping[TopicPartition, int]
    leads: Mapping[TopicPartition, bool]
    target: int
    findings: Mapping[TopicPartition, Mapping[int, Finding]]
    rests_on: object
    leading: frozenset[TopicPartition] = frozenset()
    """Which of them are led by the replica that is carried; `leads` is of the preferred leader."""
    by_mouse: bool = False
    digits: str = ""
    to_lead: bool = False
    """Whether followers become leaders where they are dropped."""

    def illegal(self, tp: TopicPartition) -> frozenset[int]:
        """Return the brokers on which `tp` cannot be dropped."""
        return frozenset(
            broker
            for broker, finding in self.findings[tp].items()
            if finding.severity is Severity.ILLEGAL
        )

    @property
    def primary(self) -> TopicPartition:
        return next(iter(self.sources))

    @property
    def moved(self) -> bool:
        return any(source != self.target for source in self.sources.values())

    @property
    def words(self) -> str:
        """Return what is carried: `leader of p17`, `first replica of p17`, `4 replicas`."""
        tp, count = self.primary, len(self.sources)
        kind = "first replica" if self.leads[tp] else "replica"
        if tp in self.leading:
            kind = "leader"
        return f"{kind} of p{tp.partition}" if count == 1 else f"{count:,} replicas"

    @property
    def finding(self) -> Finding | None:
        """Return the worst that dropping here would bring, over all that is carried."""
        findings = [
            self.findings[tp][self.target]
            for tp, source in self.sources.items()
            if source != self.target and self.target in self.findings[tp]
        ]
        return max(findings, key=lambda finding: finding.severity, default=None)

    @property
    def can_drop(self) -> bool:
        finding = self.finding
        return finding is None or finding.severity is not Severity.ILLEGAL

    def with_target(self, broker: int) -> Drag:
        return replace(self, target=broker)

    def lost(self, state: ClusterState, plan: Plan) -> str | None:
        """Return why it can be carried no longer; None while it can."""
        for broker in (self.target, *self.sources.values()):
            if broker not in state.broker_by_id:
                return f"Broker {broker} is not there any more"
        for tp, source in self.sources.items():
            if state.find(tp) is None:
                return f"{tp} does not exist any more"
            if source not in plan.target(state, tp):
                return f"Broker {source} holds no replica of {tp} any more"
        return None

    def renewed(self, state: ClusterState, load: Load, plan: Plan) -> Drag:
        """Return it with what speaks against a drop now; it must not be `lost`."""
        if self.rests_on == _basis(state, plan, self.sources):
            return self
        renewed = pick_up(state, load, plan, self.sources, self.sources[self.primary])
        assert renewed is not None
        return replace(
            self,
            leads=renewed.leads,
            leading=renewed.leading,
            findings=renewed.findings,
            rests_on=renewed.rests_on,
        )

    def dropped(self, state: ClusterState, plan: Plan) -> Plan:
        """Return the plan with everything dropped where it is; what cannot be is left alone."""
        for tp, source in self.sources.items():
            if self.target != source and self.target in self.illegal(tp):
                continue
            if self.target != source:
                plan = plan.with_move(state, tp, source, self.target)
            if self.to_lead:
                plan = plan.with_leader(state, tp, self.target)
        return plan


def pick_up(
    state: ClusterState,
    load: Load,
    plan: Plan,
    partitions: Iterable[TopicPartition],
    broker: int,
    *,
    by_mouse: bool = False,
) -> Drag | None:
    """Return the replicas of `partitions` on `broker`, lifted; None when it holds none of them."""
    from core.plan.checks.drop import check_drops

    targets = {tp: plan.target(state, tp) for tp in partitions}
    sources = {tp: broker for tp, target in targets.items() if broker in target}
    if not sources:
        return None
    leading = frozenset(
        tp for tp in sources if (at := state.find(tp)) is not None and state.leader[at] == broker
    )
    leads = {tp: targets[tp][0] == broker for tp in sources}
    findings = check_drops(state, load, plan, sources)
    basis = _basis(state, plan, sources)
    return Drag(sources, leads, broker, findings, basis, leading, by_mouse)


def _basis(state: ClusterState, plan: Plan, partitions: Iterable[TopicPartition]) -> object:
    """Return what decides where these may be dropped; sizes, which always change, are not in it."""
    rows = [state.row(index) for tp in partitions if (index := state.find(tp)) is not None]
    held = [(row.tp, row.leader, row.replicas, row.adding, row.removing) for row in rows]
    return plan.moves, [(broker.id, broker.alive, broker.rack) for broker in state.brokers], held
