"""The pilot: what is decided is written down before it is done; the switch is obeyed at once."""

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
class Hangar:
    """A pilot on a cluster of the test's, with a clock of its own."""

    time: datetime = NOON
    switch: Switch | None = SWITCH
    unreachable: bool = False
    refused: Exception | None = None
    elected: list[TopicPartition] = field(default_factory=list)
    runs: dict[str, Plan] = field(default_factory=dict)
    ends: dict[str, Entry] = field(default_factory=dict)
    suggested: list[Plan] = field(default_factory=list)
    suggestion: Plan | None = None
    told: list[Entry] = field(default_factory=list)
    seen: Observation | None = None
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
            report=self.told.append,
            patient=patient,
        )

    def fly(self, *, looks: int = 1, every: float = 15) -> list[str]:
        """Look so often; return what was told of it."""
        before = len(self.told)
        for _ in range(looks):
            self.autopilot.look()
            self.time += timedelta(seconds=every)
        return [entry.what.value for entry in self.told[before:]]

    # -- what a pilot is given -----------------------------------------------------------------

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()

    def sleep(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)

    def look(self, settings: AutopilotSettings) -> Observation:
        if self.unreachable:
            raise UnreachableError("No broker answers at 127.0.0.1:1.")
        return look(hot(), settings, now=self.time) if self.seen is None else self.seen

    def ended(self, run: str) -> Entry | None:
        return self.ends.get(run)

    def suggest(self, plan: Plan | None) -> None:
        self.suggestion = plan
        if plan is not None:
            self.suggested.append(plan)

    def elect(self, wanted: Sequence[TopicPartition], goes_on: Callable[[], bool]) -> str:
        assert [entry.what for entry in self.log.entries()][-1] is EntryKind.ACT
        if self.refused is not None:
            raise self.refused
        assert goes_on()
        self.elected += wanted
        return f"{len(wanted)} partitions given back."

    def start(self, switch: Switch, situation: Situation, plan: Plan) -> str:
        assert [entry.what for entry in self.log.entries()][-1] is EntryKind.ACT
        if self.refused is not None:
            raise self.refused
        self.acted_on = situation.observed
        run = f"run-{len(self.runs) + 1}"
        self.runs[run] = plan
        return run


@pytest.fixture
def hangar() -> Hangar:
    return Hangar()


def test_what_lasts_is_acted_on_and_written_down_first(hangar: Hangar) -> None:
    assert hangar.fly(looks=3) == ["wait", "act", "started"]
    assert len(hangar.runs["run-1"]) == 4
    assert [entry.text for entry in hangar.log.entries()][-1] == "Run run-1 carries it out."
    # Its end is waited for, and what lasts is looked for anew after it.
    assert hangar.fly(looks=5) == ["wait"]
    assert hangar.told[-1].reasons[0].id == "run"
    ended = Reason("ended", "Run run-1 has ended.")
    hangar.ends["run-1"] = Entry(
        hangar.time, EntryKind.ENDED, (ended,), "run-1", ended_at=hangar.time
    )
    assert hangar.fly() == ["ended", "wait"]
    assert [r.id for r in hangar.told[-1].reasons] == ["not-lasting", "cool-down"]


def test_suggest_writes_what_act_would_do(hangar: Hangar) -> None:
    hangar.switch = replace(SWITCH, settings=replace(EAGER, mode=Mode.SUGGEST))
    assert hangar.fly(looks=3) == ["wait", "suggest"]
    assert not hangar.runs
    assert [len(plan) for plan in hangar.suggested] == [4]
    assert {moved for moved, _, _ in hangar.told[-1].moved} == {tp(f"t-{n}") for n in range(4)}


def suggesting(hangar: Hangar, **limits: object) -> None:
    """Set the switch to suggest, as somebody does who changes limits, too."""
    settings = replace(EAGER, mode=Mode.SUGGEST, **limits)  # type: ignore[arg-type]
    hangar.switch = replace(SWITCH, settings=settings, changed_at=hangar.time)


def test_a_suggestion_follows_the_limits_at_the_next_look(hangar: Hangar) -> None:
    suggesting(hangar)
    assert hangar.fly(looks=3) == ["wait", "suggest"]
    suggesting(hangar, max_moves_per_hour=2)
    assert hangar.fly() == ["suggest"]
    assert (len(hangar.told[-1].moved), [len(plan) for plan in hangar.suggested]) == (2, [4, 2])


def test_a_suggestion_is_offered_at_once_and_logged_seldom(hangar: Hangar) -> None:
    suggesting(hangar)
    hangar.fly(looks=3)
    busier = cluster({f"t-{n}": [1 + (n > 1)] for n in range(8)}, size_bytes=MB)
    hangar.seen = look(steady(busier), now=hangar.time)
    assert hangar.fly() == []
    assert [len(plan) for plan in hangar.suggested] == [4, 2]
    hangar.time += REPEAT_PLAN_AFTER
    assert hangar.fly(looks=3) == ["suggest"]
    assert [len(plan) for plan in hangar.suggested] == [4, 2]


@pytest.mark.parametrize("change", ["broker-down", "unreachable", "act"])
def test_a_suggestion_that_holds_no_more_is_removed(hangar: Hangar, change: str) -> None:
    suggesting(hangar)
    hangar.fly(looks=3)
    assert hangar.suggestion is not None
    match change:
        case "broker-down":
            down = cluster({f"t-{n}": [2] for n in range(8)}, dead=(1,))
            hangar.seen = look(steady(down), now=hangar.time)
        case "unreachable":
            hangar.unreachable = True
        case _:
            hangar.switch = SWITCH
    hangar.fly()
    assert hangar.suggestion is None


def test_what_is_suggested_is_a_file_for_as_long_as_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "suggested.json"
    plan = Plan.of([Move(tp("t-0"), (1,), (2,))])
    write_suggestion(path, plan)
    assert json.loads(path.read_text())["partitions"][0]["replicas"] == [2]
    write_suggestion(path, None)
    write_suggestion(path, None)
    assert not path.exists()


def test_a_reason_that_stays_is_written_once_an_hour(hangar: Hangar) -> None:
    hangar.seen = replace(look(hot()), load_view=None, imbalance=None)
    hangar.fly(looks=10)
    assert len(hangar.told) == 1
    hangar.time += REPEAT_AFTER
    hangar.fly(looks=10)
    assert [entry.reasons[0].id for entry in hangar.told] == ["no-load", "no-load"]


def test_another_reason_is_written_at_once_though_of_the_same_load(hangar: Hangar) -> None:
    """Else the log would say for an hour that another look is waited for."""
    state = hot()
    live = look(state, load=loaded(state, source=Source.LIVE), looks=2)
    assert live.load_view is not None
    hangar.seen = live
    hangar.fly()
    hangar.seen = replace(live, load_view=replace(live.load_view, intervals=3, good=0.5))
    hangar.fly()
    assert [entry.reasons[0].id for entry in hangar.told] == ["few-looks", "poor-load"]


@pytest.mark.parametrize("switch", [SWITCH.turned(Mode.OFF, at=NOON, who="ada"), None])
def test_off_or_no_switch_ends_it(hangar: Hangar, switch: Switch | None) -> None:
    hangar.switch = switch
    hangar.unreachable = True
    assert hangar.autopilot.look() is False
    assert not hangar.told


def test_off_while_it_was_deciding_is_obeyed(hangar: Hangar) -> None:
    hangar.fly(looks=2)
    looks = iter([SWITCH, SWITCH.turned(Mode.OFF, at=NOON, who="ada")])
    hangar.autopilot._switch = lambda: next(looks)
    assert hangar.autopilot.look() is False
    assert not hangar.runs


def test_off_as_it_is_logged_is_obeyed(hangar: Hangar, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who turns it off and finds nothing in the log relies on that nothing follows."""

    def report(entry: Entry) -> None:
        hangar.told.append(entry)
        if entry.what is EntryKind.ACT:
            hangar.switch = SWITCH.turned(Mode.OFF, at=NOON, who="ada")

    hangar.fly(looks=2)
    monkeypatch.setattr(hangar.autopilot, "_report", report)
    assert hangar.autopilot.look() is False
    assert not hangar.runs
    assert [entry.what for entry in hangar.told[-2:]] == [EntryKind.ACT, EntryKind.FAILED]
    assert hangar.told[-1].reasons[0].id == "off"


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
def test_what_changed_while_it_was_planning_is_seen_before_it_acts(
    hangar: Hangar,
    monkeypatch: pytest.MonkeyPatch,
    meanwhile: Mapping[str, object] | None,
    reason: str,
) -> None:
    hangar.fly(looks=2)
    seen = [hangar.look(EAGER)]

    def look(settings: AutopilotSettings) -> Observation:
        if seen:
            return seen.pop()
        if meanwhile is None:
            raise UnreachableError("No broker answers at 127.0.0.1:1.")
        return replace(before, **meanwhile)  # type: ignore[arg-type]

    (before,) = seen
    monkeypatch.setattr(hangar, "look", look)
    assert hangar.autopilot.look() is True
    assert not hangar.runs
    assert (hangar.told[-1].what, hangar.told[-1].reasons[0].id) == (EntryKind.WAIT, reason)
    assert EntryKind.ACT not in {entry.what for entry in hangar.log.entries()}


def test_a_run_is_checked_by_the_last_look(hangar: Hangar, monkeypatch: pytest.MonkeyPatch) -> None:
    hangar.fly(looks=2)
    first, last = hangar.look(EAGER), hangar.look(EAGER)
    seen = iter([first, last])
    monkeypatch.setattr(hangar, "look", lambda settings: next(seen))
    assert hangar.fly() == ["act", "started"]
    assert hangar.acted_on is last


def test_off_ends_the_wait_between_two_looks(hangar: Hangar) -> None:
    waits = 0

    def sleep(seconds: float) -> None:
        nonlocal waits
        waits += 1
        hangar.switch = SWITCH.turned(Mode.OFF, at=NOON, who="ada")

    hangar.sleep = sleep  # type: ignore[method-assign]
    run_loop(hangar.autopilot, hangar, keep_on=lambda: True)
    assert waits == 1


def test_an_unreachable_cluster_is_waited_for_and_no_simulator(hangar: Hangar) -> None:
    hangar.unreachable = True
    assert hangar.fly(looks=3) == ["wait"]
    assert hangar.told[-1].text == "No broker answers at 127.0.0.1:1."
    assert hangar.another(patient=False).look() is False


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
def test_a_run_that_cannot_be_started(hangar: Hangar, refused: Exception, says: str) -> None:
    hangar.refused = refused
    assert hangar.fly(looks=3) == ["wait", "act", "failed"]
    assert hangar.told[-1].text == f"The run could not be started: {says}"
    hangar.refused = None
    assert hangar.fly(looks=3) == ["wait", "wait"]
    assert "cool-down" in {reason.id for reason in hangar.told[-1].reasons}
    assert hangar.fly(looks=3) == ["act", "started", "wait"]


def test_what_cannot_be_logged_is_not_done(hangar: Hangar, monkeypatch: pytest.MonkeyPatch) -> None:
    hangar.fly(looks=2)

    def full(entry: Entry) -> None:
        raise TrimtabError("The decision log cannot be written.")

    monkeypatch.setattr(hangar.log, "add", full)
    with pytest.raises(TrimtabError):
        hangar.autopilot.look()
    assert not hangar.runs


def test_another_process_remembers_what_the_one_before_did(hangar: Hangar) -> None:
    hangar.fly(looks=3)
    ended = Reason("ended", "Run run-1 has ended.")
    at = hangar.time
    hangar.ends["run-1"] = Entry(at, EntryKind.ENDED, (ended,), "run-1", 9e6, ended_at=at)
    hangar.fly()
    known = hangar.another().history
    assert known.acts == hangar.autopilot.history.acts
    assert known.spent(hangar.time) == (9e6, 4)
    assert known.backing_off(hangar.time) == {tp(f"t-{n}") for n in range(4)}


def test_a_decision_counts_though_its_process_died(hangar: Hangar) -> None:
    hangar.fly(looks=3)
    entries = list(hangar.log.entries())
    known = build_history(entry for entry in entries if entry.what is not EntryKind.STARTED)
    assert known.backing_off(hangar.time) == {tp(f"t-{n}") for n in range(4)}
    assert known.spent(hangar.time) == (4e6, 4)


# -- leaders given back ----------------------------------------------------------------------------


def led_elsewhere(hangar: Hangar) -> None:
    """Let broker 2 lead all that 1 should, at whatever time is looked."""
    held = {f"t-{n}": [1 + n % 2, 2 - n % 2] for n in range(8)}
    state = steady(cluster(held, leaders=dict.fromkeys(held, 2), size_bytes=MB))

    def seen(settings: AutopilotSettings) -> Observation:
        if hangar.unreachable:
            raise UnreachableError("No broker answers at 127.0.0.1:1.")
        return look(state, settings, now=hangar.time)

    hangar.look = seen  # type: ignore[method-assign]


def test_leaders_are_given_back_written_down_first_and_cooled_down_after(hangar: Hangar) -> None:
    led_elsewhere(hangar)
    assert hangar.fly(looks=3) == ["wait", "act", "elected"]
    assert hangar.elected == [tp(f"t-{n}") for n in (0, 2, 4, 6)]
    assert not hangar.runs
    meant, done = hangar.told[-2:]
    assert meant.elected == tuple((tp(f"t-{n}"), 2, 1) for n in (0, 2, 4, 6))
    assert done.text == "4 partitions given back."
    known = hangar.another().history
    assert known.acts == hangar.autopilot.history.acts
    assert known.spent(hangar.time) == (0.0, 4)
    # They are away still: that lasts anew, and is cooled down before.
    assert hangar.fly(looks=3) == ["wait", "wait"]
    assert {reason.id for reason in hangar.told[-1].reasons} == {"cool-down"}
    assert hangar.fly(looks=3) == ["act", "elected", "wait"]


def test_suggested_elections_are_written_down_and_no_plan_is_offered(hangar: Hangar) -> None:
    suggesting(hangar)
    assert hangar.fly(looks=3) == ["wait", "suggest"]
    assert hangar.suggestion is not None
    led_elsewhere(hangar)
    hangar.autopilot = hangar.another()
    assert hangar.fly(looks=3) == ["wait", "suggest"]
    assert len(hangar.told[-1].elected) == 4
    assert hangar.suggestion is None, "an election is no plan to apply"
    assert not hangar.elected


def test_an_election_that_failed_is_told_and_cooled_down_after(hangar: Hangar) -> None:
    led_elsewhere(hangar)
    hangar.refused = UnreachableError("No broker answers at 127.0.0.1:1.")
    assert hangar.fly(looks=3) == ["wait", "act", "failed"]
    assert hangar.told[-1].text == "No leader was elected: No broker answers at 127.0.0.1:1."
    hangar.refused = None
    hangar.fly(looks=2)
    assert "cool-down" in {reason.id for reason in hangar.told[-1].reasons}
    assert not hangar.elected
    assert hangar.another().history.spent(hangar.time) == (0.0, 0)


def test_on_the_timeline_an_election_is_told_of_the_brokers_that_it_is_about() -> None:
    reason = (Reason("elect", "Broker 1 is at 0% of its share."),)
    act = Entry(NOON, EntryKind.ACT, reason, elected=((tp("t-0"), 2, 1), (tp("t-1"), 3, 1)))
    assert entry_brokers(act) == (1, 2, 3)
    assert timeline_clause(act) == "decided to act: broker 1 is at 0% of its share"
    done = Entry(NOON, EntryKind.ELECTED, (Reason("elected", "2 partitions given back."),))
    assert timeline_clause(done) == "elected: 2 partitions given back"


def test_other_capacities_are_said_once_and_hold(hangar: Hangar) -> None:
    told = Capacity(125e6)
    hangar.fly()
    hangar.seen = replace(look(hot()), capacity=told)
    assert hangar.fly(looks=3)[:1] == ["capacity"]
    (said,) = [entry for entry in hangar.log.entries() if entry.what is EntryKind.CAPACITY]
    assert said.text == (
        "Brokers can carry in 125 MB/s, out unknown by config.toml; before it was in unknown, "
        "out unknown."
    )
    assert timeline_clause(said) == ""
    # The switch was set with what holds: there is nothing to say.
    hangar.switch = replace(SWITCH, address=Address("127.0.0.1:1", capacity=told))
    hangar.autopilot = hangar.another()
    assert "capacity" not in hangar.fly(looks=2)
