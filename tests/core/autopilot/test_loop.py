"""The loop: what is decided is written down before it is done; the switch is obeyed at once."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from auto_help import EAGER, hot, loaded, look, steady
from clusters import MB, NOON, cluster, tp

from core.autopilot.daemon import write_suggestion
from core.autopilot.decision import Reason
from core.autopilot.history import Situation
from core.autopilot.log import (
    DecisionLog,
    Entry,
    EntryKind,
    build_history,
    entry_brokers,
    timeline_clause,
)
from core.autopilot.loop import REPEAT_AFTER, REPEAT_PLAN_AFTER, Autopilot, run_loop
from core.autopilot.observation import Observation
from core.autopilot.settings import AutopilotSettings, Mode
from core.autopilot.switch import Switch
from core.cluster.capacity import Capacity
from core.cluster.connect import Address
from core.cluster.metadata import Reassignment, TopicPartition
from core.errors import RefusedError, TrimtabError, UnreachableError
from core.load.load import Source
from core.plan.plan import Move, Plan

SWITCH = Switch("test-cluster", "test", Address("127.0.0.1:1"), EAGER, NOON, "ada")


@dataclass
class Loop:
    """An autopilot on a cluster of the test's, with a clock of its own."""

    time: datetime = NOON
    switch: Switch | None = SWITCH
    unreachable: bool = False
    refused: Exception | None = None
    elected: list[TopicPartition] = field(default_factory=list)
    runs: dict[str, Plan] = field(default_factory=dict)
    ends: dict[str, Entry] = field(default_factory=dict)
    suggested: list[Plan] = field(default_factory=list)
    suggestion: Plan | None = None
    entries: list[Entry] = field(default_factory=list)
    observation: Observation | None = None
    acted_on: Observation | None = None

    def __post_init__(self) -> None:
        self.log = DecisionLog("test-cluster")
        self.autopilot = self.another()

    def another(self, *, patient: bool = True) -> Autopilot:
        return Autopilot(
            self,
            self,
            self.log,
            switch=lambda: self.switch,
            start=self.start,
            elect=self.elect,
            suggest=self.suggest,
            report=self.entries.append,
            patient=patient,
        )

    def run(self, *, poll_count: int = 1, every: float = 15) -> list[str]:
        """Look so often; return what was told of it."""
        before = len(self.entries)
        for _ in range(poll_count):
            self.autopilot.look()
            self.time += timedelta(seconds=every)
        return [entry.what.value for entry in self.entries[before:]]

    # -- what an autopilot is given --------------------------------------------------------------

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()

    def sleep(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)

    def look(self, settings: AutopilotSettings) -> Observation:
        if self.unreachable:
            raise UnreachableError("No broker answers at 127.0.0.1:1.")
        return (
            look(hot(), settings, now=self.time) if self.observation is None else self.observation
        )

    def ended(self, run: str) -> Entry | None:
        return self.ends.get(run)

    def suggest(self, plan: Plan | None) -> None:
        self.suggestion = plan
        if plan is not None:
            self.suggested.append(plan)

    def elect(self, partitions: Sequence[TopicPartition], goes_on: Callable[[], bool]) -> str:
        assert [entry.what for entry in self.log.entries()][-1] is EntryKind.ACT
        if self.refused is not None:
            raise self.refused
        assert goes_on()
        self.elected += partitions
        return f"{len(partitions)} partitions given back."

    def start(self, switch: Switch, situation: Situation, plan: Plan) -> str:
        assert [entry.what for entry in self.log.entries()][-1] is EntryKind.ACT
        if self.refused is not None:
            raise self.refused
        self.acted_on = situation.observed
        run = f"run-{len(self.runs) + 1}"
        self.runs[run] = plan
        return run


@pytest.fixture
def loop() -> Loop:
    return Loop()


def test_lasting_imbalance_is_acted_on_after_the_decision_is_logged(loop: Loop) -> None:
    assert loop.run(poll_count=3) == ["wait", "act", "started"]
    assert len(loop.runs["run-1"]) == 4
    assert [entry.text for entry in loop.log.entries()][-1] == "Run run-1 carries it out."
    # Its end is waited for, and what lasts is looked for anew after it.
    assert loop.run(poll_count=5) == ["wait"]
    assert loop.entries[-1].reasons[0].id == "run"
    ended = Reason("ended", "Run run-1 has ended.")
    loop.ends["run-1"] = Entry(loop.time, EntryKind.ENDED, (ended,), "run-1", ended_at=loop.time)
    assert loop.run() == ["ended", "wait"]
    assert [r.id for r in loop.entries[-1].reasons] == ["not-lasting", "cool-down"]


def test_suggest_mode_logs_the_plan_that_act_mode_would_run(loop: Loop) -> None:
    loop.switch = replace(SWITCH, settings=replace(EAGER, mode=Mode.SUGGEST))
    assert loop.run(poll_count=3) == ["wait", "suggest"]
    assert not loop.runs
    assert [len(plan) for plan in loop.suggested] == [4]
    assert {moved for moved, _, _ in loop.entries[-1].moved} == {tp(f"t-{n}") for n in range(4)}


def suggesting(loop: Loop, **limits: object) -> None:
    """Set the switch to suggest, as somebody does who changes limits, too."""
    settings = replace(EAGER, mode=Mode.SUGGEST, **limits)  # type: ignore[arg-type]
    loop.switch = replace(SWITCH, settings=settings, changed_at=loop.time)


def test_suggestion_follows_changed_limits_at_the_next_poll(loop: Loop) -> None:
    suggesting(loop)
    assert loop.run(poll_count=3) == ["wait", "suggest"]
    suggesting(loop, max_moves_per_hour=2)
    assert loop.run() == ["suggest"]
    assert (len(loop.entries[-1].moved), [len(plan) for plan in loop.suggested]) == (2, [4, 2])


def test_changed_suggestion_is_offered_at_once_but_logged_only_after_an_interval(
    loop: Loop,
) -> None:
    suggesting(loop)
    loop.run(poll_count=3)
    busier = cluster({f"t-{n}": [1 + (n > 1)] for n in range(8)}, size_bytes=MB)
    loop.observation = look(steady(busier), now=loop.time)
    assert loop.run() == []
    assert [len(plan) for plan in loop.suggested] == [4, 2]
    loop.time += REPEAT_PLAN_AFTER
    assert loop.run(poll_count=3) == ["suggest"]
    assert [len(plan) for plan in loop.suggested] == [4, 2]


@pytest.mark.parametrize("change", ["broker-down", "unreachable", "act"])
def test_suggestion_that_no_longer_applies_is_removed(loop: Loop, change: str) -> None:
    suggesting(loop)
    loop.run(poll_count=3)
    assert loop.suggestion is not None
    match change:
        case "broker-down":
            down = cluster({f"t-{n}": [2] for n in range(8)}, dead=(1,))
            loop.observation = look(steady(down), now=loop.time)
        case "unreachable":
            loop.unreachable = True
        case _:
            loop.switch = SWITCH
    loop.run()
    assert loop.suggestion is None


def test_suggestion_file_exists_only_while_the_suggestion_holds(tmp_path: Path) -> None:
    path = tmp_path / "suggested.json"
    plan = Plan.of([Move(tp("t-0"), (1,), (2,))])
    write_suggestion(path, plan)
    assert json.loads(path.read_text())["partitions"][0]["replicas"] == [2]
    write_suggestion(path, None)
    write_suggestion(path, None)
    assert not path.exists()


def test_unchanged_reason_is_logged_once_an_hour(loop: Loop) -> None:
    loop.observation = replace(look(hot()), load_view=None, imbalance=None)
    loop.run(poll_count=10)
    assert len(loop.entries) == 1
    loop.time += REPEAT_AFTER
    loop.run(poll_count=10)
    assert [entry.reasons[0].id for entry in loop.entries] == ["no-load", "no-load"]


def test_different_reason_is_logged_at_once_even_for_the_same_load(loop: Loop) -> None:
    """Else the log would say for an hour that another look is waited for."""
    state = hot()
    live = look(state, load=loaded(state, source=Source.LIVE), poll_count=2)
    assert live.load_view is not None
    loop.observation = live
    loop.run()
    loop.observation = replace(live, load_view=replace(live.load_view, intervals=3, good=0.5))
    loop.run()
    assert [entry.reasons[0].id for entry in loop.entries] == ["few-looks", "poor-load"]


@pytest.mark.parametrize("switch", [SWITCH.turned(Mode.OFF, at=NOON, who="ada"), None])
def test_mode_off_or_missing_switch_ends_the_loop(loop: Loop, switch: Switch | None) -> None:
    loop.switch = switch
    loop.unreachable = True
    assert loop.autopilot.look() is False
    assert not loop.entries


def test_mode_off_set_during_a_decision_prevents_the_run(loop: Loop) -> None:
    loop.run(poll_count=2)
    looks = iter([SWITCH, SWITCH.turned(Mode.OFF, at=NOON, who="ada")])
    loop.autopilot._switch = lambda: next(looks)
    assert loop.autopilot.look() is False
    assert not loop.runs


def test_mode_off_set_while_the_decision_is_logged_prevents_the_run(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who turns it off and finds nothing in the log relies on that nothing follows."""

    def report(entry: Entry) -> None:
        loop.entries.append(entry)
        if entry.what is EntryKind.ACT:
            loop.switch = SWITCH.turned(Mode.OFF, at=NOON, who="ada")

    loop.run(poll_count=2)
    monkeypatch.setattr(loop.autopilot, "_report", report)
    assert loop.autopilot.look() is False
    assert not loop.runs
    assert [entry.what for entry in loop.entries[-2:]] == [EntryKind.ACT, EntryKind.FAILED]
    assert loop.entries[-1].reasons[0].id == "off"


@pytest.mark.parametrize(
    ("meanwhile", "reason"),
    [
        ({"died": ("1122-081500",)}, "dead-run"),
        ({"running": ("1122-081500",)}, "run"),
        ({"run_ended_at": NOON}, "cool-down"),
        ({"reassignments": {tp("t-0"): Reassignment((1, 2), (1,), (2,))}}, "foreign-move"),
        ({"state": replace(hot(), controller=2)}, "controller"),
        (None, "unreachable"),
    ],
)
def test_change_during_planning_is_observed_before_acting(
    loop: Loop,
    monkeypatch: pytest.MonkeyPatch,
    meanwhile: Mapping[str, object] | None,
    reason: str,
) -> None:
    loop.run(poll_count=2)
    seen = [loop.look(EAGER)]

    def look(settings: AutopilotSettings) -> Observation:
        if seen:
            return seen.pop()
        if meanwhile is None:
            raise UnreachableError("No broker answers at 127.0.0.1:1.")
        return replace(before, **meanwhile)  # type: ignore[arg-type]

    (before,) = seen
    monkeypatch.setattr(loop, "look", look)
    assert loop.autopilot.look() is True
    assert not loop.runs
    assert (loop.entries[-1].what, loop.entries[-1].reasons[0].id) == (EntryKind.WAIT, reason)
    assert EntryKind.ACT not in {entry.what for entry in loop.log.entries()}


def test_run_is_started_from_the_last_observation_before_acting(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop.run(poll_count=2)
    first, last = loop.look(EAGER), loop.look(EAGER)
    seen = iter([first, last])
    monkeypatch.setattr(loop, "look", lambda settings: next(seen))
    assert loop.run() == ["act", "started"]
    assert loop.acted_on is last


def test_mode_off_ends_the_wait_between_two_polls(loop: Loop) -> None:
    waits = 0

    def sleep(seconds: float) -> None:
        nonlocal waits
        waits += 1
        loop.switch = SWITCH.turned(Mode.OFF, at=NOON, who="ada")

    loop.sleep = sleep  # type: ignore[method-assign]
    run_loop(loop.autopilot, loop, keep_on=lambda: True)
    assert waits == 1


def test_unreachable_cluster_is_retried_while_an_unreachable_simulator_ends_the_loop(
    loop: Loop,
) -> None:
    loop.unreachable = True
    assert loop.run(poll_count=3) == ["wait"]
    assert loop.entries[-1].text == "No broker answers at 127.0.0.1:1."
    assert loop.another(patient=False).look() is False


@pytest.mark.parametrize(
    ("refused", "says"),
    [
        (
            RefusedError("Refused by a check: disk.", detail="  disk: broker 1 is full."),
            "Refused by a check: disk. disk: broker 1 is full.",
        ),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device."),
        (
            OSError(errno.EACCES, "Permission denied", "/var/runs"),
            "/var/runs: Permission denied.",
        ),
    ],
)
def test_run_that_cannot_be_started_is_logged_and_followed_by_a_cool_down(
    loop: Loop, refused: Exception, says: str
) -> None:
    loop.refused = refused
    assert loop.run(poll_count=3) == ["wait", "act", "failed"]
    assert loop.entries[-1].text == f"The run could not be started: {says}"
    loop.refused = None
    assert loop.run(poll_count=3) == ["wait", "wait"]
    assert "cool-down" in {reason.id for reason in loop.entries[-1].reasons}
    assert loop.run(poll_count=3) == ["act", "started", "wait"]


def test_decision_that_cannot_be_logged_is_not_executed(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop.run(poll_count=2)

    def full(entry: Entry) -> None:
        raise TrimtabError("The decision log cannot be written.")

    monkeypatch.setattr(loop.log, "add", full)
    with pytest.raises(TrimtabError):
        loop.autopilot.look()
    assert not loop.runs


def test_new_process_restores_the_history_of_the_previous_process(loop: Loop) -> None:
    loop.run(poll_count=3)
    ended = Reason("ended", "Run run-1 has ended.")
    at = loop.time
    loop.ends["run-1"] = Entry(at, EntryKind.ENDED, (ended,), "run-1", 9e6, ended_at=at)
    loop.run()
    known = loop.another().history
    assert known.acts == loop.autopilot.history.acts
    assert known.spent(loop.time) == (9e6, 4)
    assert known.backing_off(loop.time) == {tp(f"t-{n}") for n in range(4)}


def test_logged_decision_counts_even_if_its_process_died(loop: Loop) -> None:
    loop.run(poll_count=3)
    entries = list(loop.log.entries())
    known = build_history(entry for entry in entries if entry.what is not EntryKind.STARTED)
    assert known.backing_off(loop.time) == {tp(f"t-{n}") for n in range(4)}
    assert known.spent(loop.time) == (4e6, 4)


# -- leaders given back ----------------------------------------------------------------------------


def leaders_elsewhere(loop: Loop) -> None:
    """Let broker 2 lead all that 1 should, at whatever time is looked."""
    held = {f"t-{n}": [1 + n % 2, 2 - n % 2] for n in range(8)}
    state = steady(cluster(held, leaders=dict.fromkeys(held, 2), size_bytes=MB))

    def observation(settings: AutopilotSettings) -> Observation:
        if loop.unreachable:
            raise UnreachableError("No broker answers at 127.0.0.1:1.")
        return look(state, settings, now=loop.time)

    loop.look = observation  # type: ignore[method-assign]


def test_elections_are_logged_in_advance_and_followed_by_a_cool_down(loop: Loop) -> None:
    leaders_elsewhere(loop)
    assert loop.run(poll_count=3) == ["wait", "act", "elected"]
    assert loop.elected == [tp(f"t-{n}") for n in (0, 2, 4, 6)]
    assert not loop.runs
    meant, done = loop.entries[-2:]
    assert meant.elected == tuple((tp(f"t-{n}"), 2, 1) for n in (0, 2, 4, 6))
    assert done.text == "4 partitions given back."
    known = loop.another().history
    assert known.acts == loop.autopilot.history.acts
    assert known.spent(loop.time) == (0.0, 4)
    # They are away still: that lasts anew, and is cooled down before.
    assert loop.run(poll_count=3) == ["wait", "wait"]
    assert {reason.id for reason in loop.entries[-1].reasons} == {"cool-down"}
    assert loop.run(poll_count=3) == ["act", "elected", "wait"]


def test_suggested_elections_are_logged_and_no_plan_is_offered(loop: Loop) -> None:
    suggesting(loop)
    assert loop.run(poll_count=3) == ["wait", "suggest"]
    assert loop.suggestion is not None
    leaders_elsewhere(loop)
    loop.autopilot = loop.another()
    assert loop.run(poll_count=3) == ["wait", "suggest"]
    assert len(loop.entries[-1].elected) == 4
    assert loop.suggestion is None, "an election is no plan to apply"
    assert not loop.elected


def test_failed_election_is_reported_and_followed_by_a_cool_down(loop: Loop) -> None:
    leaders_elsewhere(loop)
    loop.refused = UnreachableError("No broker answers at 127.0.0.1:1.")
    assert loop.run(poll_count=3) == ["wait", "act", "failed"]
    assert loop.entries[-1].text == "No leader was elected: No broker answers at 127.0.0.1:1."
    loop.refused = None
    loop.run(poll_count=2)
    assert "cool-down" in {reason.id for reason in loop.entries[-1].reasons}
    assert not loop.elected
    assert loop.another().history.spent(loop.time) == (0.0, 0)


def test_timeline_entry_of_an_election_names_the_brokers_it_concerns() -> None:
    reason = (Reason("elect", "Broker 1 is at 0% of its share."),)
    act = Entry(NOON, EntryKind.ACT, reason, elected=((tp("t-0"), 2, 1), (tp("t-1"), 3, 1)))
    assert entry_brokers(act) == (1, 2, 3)
    assert timeline_clause(act) == "decided to act: broker 1 is at 0% of its share"
    done = Entry(NOON, EntryKind.ELECTED, (Reason("elected", "2 partitions given back."),))
    assert timeline_clause(done) == "elected: 2 partitions given back"


def test_changed_capacities_are_reported_once_and_not_if_the_switch_has_them(loop: Loop) -> None:
    capacity = Capacity(125e6)
    loop.run()
    loop.observation = replace(look(hot()), capacity=capacity)
    assert loop.run(poll_count=3)[:1] == ["capacity"]
    (capacity_entry,) = [entry for entry in loop.log.entries() if entry.what is EntryKind.CAPACITY]
    assert capacity_entry.text == (
        "Brokers can carry in 125 MB/s, out unknown by config.toml; before it was in unknown, "
        "out unknown."
    )
    assert timeline_clause(capacity_entry) == ""
    # The switch was set with what holds: there is nothing to say.
    loop.switch = replace(SWITCH, address=Address("127.0.0.1:1", capacity=capacity))
    loop.autopilot = loop.another()
    assert "capacity" not in loop.run(poll_count=2)
