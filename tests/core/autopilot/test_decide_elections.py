"""Where only leaders are off, they are given back: nothing is moved for what an election mends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from auto_help import EAGER, acted, decided, ids, lasted, loaded, look, publish, steady
from clusters import MB, NOON, cluster, tp
from run_help import Faulty
from run_help import cluster as simulated

from core.autopilot.decide import decide
from core.autopilot.decision import Act, Elect, Wait
from core.autopilot.history import DecisionHistory
from core.autopilot.log import DecisionLog, Entry, EntryKind, build_history
from core.autopilot.loop import elect_leaders
from core.autopilot.observer import ClusterObserver
from core.autopilot.settings import AutopilotSettings, Hours, Mode
from core.cluster.kafka_errors import Fault
from core.cluster.simulation.cluster import SimulatedCluster
from core.cluster.state import ClusterState
from core.run import audit
from core.run.engine.mover import BETWEEN_ELECTIONS_SECONDS

JUST_NOW = NOON - timedelta(seconds=30)
BACK = tuple(f"t-{n}" for n in range(0, 12, 3))
"""The partitions that prefer broker 1."""


def after_restart(away: Sequence[str] = BACK, *, late: Sequence[str] = ()) -> ClusterState:
    """Return an even cluster of which 1 leads nothing of what it should: it was down."""
    order = {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]}
    held = {f"t-{n}": order[n % 3] for n in range(12)}
    return steady(
        cluster(
            held,
            leaders=dict.fromkeys(away, 2),
            isr={name: [2, 3] for name in late},
            size_bytes=MB,
        )
    )


def test_leaders_off_their_preferred_replica_are_elected_without_any_move() -> None:
    decision = decided(look(after_restart()))
    assert isinstance(decision, Elect)
    assert [str(election.tp) for election in decision.elections] == sorted(BACK)
    assert {(election.leader, election.to) for election in decision.elections} == {(2, 1)}
    assert decision.reasons[0].text == (
        "Broker 1 is at 0% of its fair share of leaders as partitions are led now: 4 partitions "
        "given back to their preferred leaders, nothing to move, and then broker 1 is at 100% of "
        "its fair share of leaders."
    )


def test_suggest_mode_decides_the_same_elections_as_act_mode() -> None:
    observed = look(after_restart())
    assert decided(observed, replace(EAGER, mode=Mode.SUGGEST)) == decided(observed)


def test_leader_imbalance_must_last_before_an_election() -> None:
    """A broker that has just come back is given the time that any imbalance is given."""
    history = DecisionHistory()
    for seconds, rule in ((0, "not-lasting"), (20, "not-lasting"), (40, "elect")):
        observed = look(after_restart(), now=NOON + timedelta(seconds=seconds))
        history = history.seeing(EAGER, observed)
        assert ids(decide(EAGER, history, observed)) == [rule]


def test_elections_precede_data_moves() -> None:
    """The placement is off, too: what an election mends is not copied for."""
    held = {f"t-{n}": [1, 2] if n < 8 else [2, 1] for n in range(16)} | {"big-0": [1, 2]}
    state = steady(
        cluster(
            held,
            brokers=(1, 2, 3),
            leaders={f"t-{n}": 2 for n in range(8)},
            size_bytes=MB,
        )
    )
    observed = look(state)
    assert observed.imbalance.outside
    assert isinstance(decided(observed), Elect)
    led = look(replace(state, leader=state.replica_broker[state.replica_start[:-1]]))
    assert isinstance(decided(led), Act)


def test_few_leaders_off_their_preferred_replica_cause_no_election() -> None:
    held = {f"t-{n}": [1 + n % 2, 2 - n % 2] for n in range(40)}
    state = steady(cluster(held, leaders={"t-0": 2}, size_bytes=MB))
    assert ids(decided(look(state))) == ["balanced"]


def test_partitions_whose_preferred_replica_is_out_of_sync_are_not_elected() -> None:
    state = after_restart(late=BACK[:1])
    assert ids(decided(look(state)))[0] == "out-of-sync"
    everybody = after_restart(late=BACK)
    assert look(everybody).leader_imbalance is None


@pytest.mark.parametrize(
    ("limits", "elected"),
    [
        ({"max_moves_per_hour": 2}, 2),
        ({"topics": "t"}, 4),
        ({"keep": "t"}, None),
        ({"topics": "no-such"}, None),
    ],
)
def test_elections_respect_the_limits(limits: dict[str, object], elected: int | None) -> None:
    settings = replace(EAGER, **limits)  # type: ignore[arg-type]
    decision = decided(look(after_restart(), settings), settings)
    if elected is None:
        assert ids(decision) == ["nothing-helps"]
    else:
        assert isinstance(decision, Elect)
        assert len(decision.elections) == elected


def test_election_that_helps_most_comes_first() -> None:
    state = after_restart()
    rates = {f"t-{n}": MB * (20.0 if f"t-{n}" == "t-9" else 1.0) for n in range(12)}
    few = replace(EAGER, max_moves_per_hour=1)
    decision = decided(look(state, few, load=loaded(state, rates)), few)
    assert isinstance(decision, Elect)
    assert [str(election.tp) for election in decision.elections] == ["t-9"]


@pytest.mark.parametrize(
    ("settings", "history", "rule"),
    [
        (EAGER, DecisionHistory(acts=(acted(NOON, ended_at=JUST_NOW),)), "cool-down"),
        (EAGER, DecisionHistory(failed_at=JUST_NOW), "cool-down"),
        (
            replace(EAGER, avoid=Hours.parse("00:00-24:00", "--avoid")),
            DecisionHistory(),
            "busy-hours",
        ),
    ],
)
def test_cool_down_and_busy_hours_also_apply_to_elections(
    settings: AutopilotSettings, history: DecisionHistory, rule: str
) -> None:
    assert ids(decided(look(after_restart(), settings), settings, history)) == [rule]


def test_election_that_does_not_improve_balance_is_not_run() -> None:
    """All prefer one broker, and two share what that should lead."""
    held = {f"t-{n}": [1, 2] for n in range(8)}
    state = cluster(held, leaders={f"t-{n}": 2 for n in range(5)}, size_bytes=MB)
    observed = look(steady(state))
    assert observed.leader_imbalance.outside
    decision = decided(observed)
    assert isinstance(decision, Act), "placement is what is off"
    assert decision.copies == 0


def test_automatic_leader_rebalance_of_brokers_is_awaited() -> None:
    decision = decided(look(after_restart(), returns_every_seconds=300.0))
    assert isinstance(decision, Wait)
    assert ids(decision) == ["leaders-return"]
    assert decision.reasons[0].text == (
        "Broker 1 is at 0% of its fair share of leaders as partitions are led now, and brokers "
        "give leaders back by themselves (auto.leader.rebalance.enable, every 5 m 00 s): that is "
        "waited for; trimtab elect does it at once."
    )


@pytest.mark.parametrize(("seconds", "rule"), [(499, "leaders-return"), (501, "elect")])
def test_automatic_leader_rebalance_is_awaited_for_at_most_two_intervals(
    seconds: float, rule: str
) -> None:
    """Controllers that are apart may have it off, and nobody can ask them."""
    observed = look(after_restart(), returns_every_seconds=250.0)
    decision = decide(EAGER, lasted(EAGER, observed, seconds=seconds), observed)
    assert ids(decision) == [rule]
    if rule == "elect":
        assert decision.reasons[0].text.endswith(
            " Brokers say that they do it every 4 m 10 s, and have not for 8 m 21 s."
        )


# -- on a cluster ----------------------------------------------------------------------------------

TURNS = {0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2)}
LAYOUT = {"t": [TURNS[n % 3] for n in range(12)]}


def came_back() -> SimulatedCluster:
    """Return a cluster whose broker 1 was down and is back, with all it should lead led by 2."""
    client = simulated(LAYOUT, brokers=(1, 2, 3), leaders={tp(name): 2 for name in BACK})
    assert _leader_count_of_1(client) == 0
    return client


def _leader_count_of_1(client: SimulatedCluster) -> int:
    return int((client.describe_cluster().leader == 1).sum())


@pytest.mark.parametrize(("itself", "every"), [("true", 300.0), ("false", None), (None, None)])
def test_observer_detects_leader_imbalance_and_automatic_leader_rebalance(
    tmp_path: Path, itself: str | None, every: float | None
) -> None:
    """Where it may not be asked, nobody is taken to do it."""
    client = came_back()
    faulty = Faulty(client)
    asked: list[int] = []

    def configs(real, resources, names):  # type: ignore[no-untyped-def]
        answers = dict(real(resources, names))
        name = "auto.leader.rebalance.enable"
        if name in names:
            asked.append(len(resources))
            if itself is None:
                return dict.fromkeys(answers, Fault("CLUSTER_AUTHORIZATION_FAILED"))
            for values in answers.values():
                values[name] = replace(values[name], value=itself)
        return answers

    faulty.replaced["describe_configs"] = configs
    cluster_id = client.describe_cluster().cluster_id
    observer = ClusterObserver(faulty, client.clock, cluster_id, tmp_path / "load")  # type: ignore[arg-type]
    publish(tmp_path / "load", client)
    for _ in range(3):
        observed = observer.look(EAGER)
        client.clock.sleep(5)
    assert observed.leader_imbalance.outside
    assert observed.returns_every_seconds == every
    assert asked == [3], "once a minute is enough"
    client.elect_leaders([tp(name) for name in BACK])
    client.clock.sleep(60)
    assert observer.look(EAGER).leader_imbalance is None
    assert asked == [3], "where nobody is away nobody is asked"


def test_elections_run_in_audited_batches_until_the_autopilot_is_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = came_back()
    cluster_id, wanted = client.describe_cluster().cluster_id, [tp(name) for name in BACK]
    began = client.clock.monotonic()
    monkeypatch.setattr("core.autopilot.loop.MAX_ELECTED_AT_ONCE", 3)
    answers = iter([False])
    summary = elect_leaders(client, client.clock, cluster_id, wanted, lambda: next(answers))
    assert summary == "3 partitions of 4 given back. It was turned off then."
    assert _leader_count_of_1(client) == 3
    assert client.clock.monotonic() - began >= BETWEEN_ELECTIONS_SECONDS
    summary = elect_leaders(client, client.clock, cluster_id, wanted, lambda: True)
    assert summary == "4 partitions given back."
    assert _leader_count_of_1(client) == 4
    written = [line.entry["what"] for line in audit.read() if line.entry is not None]
    assert written.count("elect") == 3


def test_partitions_that_were_not_elected_are_reported() -> None:
    client = came_back()
    faulty = Faulty(client)

    def elected(real, partitions, **_):  # type: ignore[no-untyped-def]
        return real(partitions) | {tp("t-3"): Fault("PREFERRED_LEADER_NOT_AVAILABLE")}

    faulty.replaced["elect_leaders"] = elected
    summary = elect_leaders(
        faulty,  # type: ignore[arg-type]
        client.clock,
        client.describe_cluster().cluster_id,
        [tp(name) for name in BACK],
        lambda: True,
    )
    assert summary == ("3 partitions of 4 given back. t-3 was not: PREFERRED_LEADER_NOT_AVAILABLE.")


# -- what is remembered ----------------------------------------------------------------------------

ACT = Entry(
    NOON,
    EntryKind.ACT,
    decided(look(after_restart())).reasons,
    elected=((tp("t-0"), 2, 1), (tp("t-3"), 2, 1)),
)


def test_elections_count_in_the_hourly_budget_and_cause_no_partition_cool_down() -> None:
    log = DecisionLog("c-1")
    log.add(ACT)
    (back,) = log.entries()
    assert back == ACT
    done = Entry(NOON, EntryKind.ELECTED, ACT.reasons, ended_at=NOON)
    for entries in ([ACT], [ACT, done]):
        known = build_history(entries)
        assert known.spent(NOON) == (0.0, 2)
        assert known.backing_off(NOON) == frozenset()
        assert not known.is_starting_run, "nobody has to wait for a run that none will be"
        assert known.acts[-1].ended_at == NOON
    assert build_history([ACT, replace(done, what=EntryKind.FAILED)]).spent(NOON) == (0.0, 0)
    # A failure that is told later is another act's.
    assert build_history([ACT, done, replace(done, what=EntryKind.FAILED)]).spent(NOON) == (0.0, 2)
