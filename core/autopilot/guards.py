"""The rules that keep an autopilot from acting, each a function that says why in one sentence.

Pure. `SAFETY` is what must hold whatever brokers carry, `TIMELY` what makes a run worth it now.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

import numpy as np

from core.autopilot.decision import Reason
from core.autopilot.history import Situation
from core.autopilot.settings import MIN_LIVE_INTERVALS
from core.cluster.balancers import find_balancer
from core.load.load import Source
from core.run.external.moves import foreign_moves
from core.units import counted, format_bytes, format_duration, name_list

MIN_KNOWN_PART = 0.95
"""The part of partitions of which the load must be known well."""
CONTROLLER_STEADY = timedelta(minutes=1)
"""How long a new controller is given before anything is asked of it."""
MAX_CLOCK_AHEAD = timedelta(seconds=5)
"""A load may be so much younger than the clock of who looks at it."""

Guard = Callable[[Situation], Reason | None]


def check_guards(guards: Sequence[Guard], situation: Situation) -> tuple[Reason, ...]:
    """Return what every guard that holds has to say, in their order."""
    found = (guard(situation) for guard in guards)
    return tuple(reason for reason in found if reason is not None)


# -- whether the cluster is fit to be changed ------------------------------------------------------


def read_only(situation: Situation) -> Reason | None:
    if situation.observed.read_only:
        return Reason("read-only", "config.toml marks this cluster read_only: nothing is done.")
    if situation.observed.config_error:  # a misspelt read_only must not leave a cluster writable
        return Reason(
            "config", f"Not until config.toml can be read: {situation.observed.config_error}"
        )
    return None


def broker_down(situation: Situation) -> Reason | None:
    down = [broker.id for broker in situation.state.brokers if not broker.alive]
    known = situation.state.broker_by_id.keys()
    gone = set(np.unique(situation.state.replica_broker).tolist()) - known
    names = ", ".join(map(str, sorted({*down, *gone})))
    if not names:
        return None
    return Reason("broker-down", f"Not while a broker is down: {names}.")


def controller(situation: Situation) -> Reason | None:
    if situation.state.controller is None:
        return Reason("no-controller", "Not while the cluster has no controller.")
    since = situation.history.controller_since
    if since is None or situation.now - since >= CONTROLLER_STEADY:
        return None
    ago = format_duration((situation.now - since).total_seconds())
    return Reason("controller", f"Not while the controller is changing: it did {ago} ago.")


def without_leader(situation: Situation) -> Reason | None:
    many = int((situation.state.leader < 0).sum())
    return Reason("no-leader", f"Not while partitions have no leader: {many}.") if many else None


def out_of_sync(situation: Situation) -> Reason | None:
    state = situation.state
    # A replica that is arriving is no member of the ISR yet; it is told as a move.
    late = state.partition_of_replica[~state.in_sync & ~state.adding]
    many = counted(len(np.unique(late)), "partition")
    text = f"Not while replicas are out of sync: {many}."
    return Reason("out-of-sync", text) if len(late) else None


def own_run(situation: Situation) -> Reason | None:
    observed = situation.observed
    started = (act.run for act in situation.history.acts if act.ended_at is None)
    going = (run for run in started if run not in (*observed.running, *observed.died))
    run = next((run for runs in (observed.running, going) for run in runs), None)
    if run is None:
        return None
    return Reason("run", f"Run {run} is in progress: its end is waited for.")


def dead_run(situation: Situation) -> Reason | None:
    if not situation.observed.died:
        return None
    run = situation.observed.died[0]
    return Reason("dead-run", f"Run {run} has died in the middle: trimtab runs attach {run}.")


def unreadable_journal(situation: Situation) -> Reason | None:
    if not situation.observed.unreadable:
        return None
    why = situation.observed.unreadable[0]
    return Reason("journal", f"Not while a run's journal cannot be read: {why}")


def foreign_move(situation: Situation) -> Reason | None:
    if situation.observed.running:
        return None  # whose moves these are is the run's to say
    seen = {move.tp for move in foreign_moves(situation.state, ())}
    moving = sorted(seen | situation.observed.reassignments.keys())
    if not moving:
        return None
    return Reason("foreign-move", f"Not while somebody else moves {name_list(moving)}.")


def cruise_control(situation: Situation) -> Reason | None:
    balancer = find_balancer(situation.state)
    if balancer is None:
        return None
    return Reason("cruise-control", f"{balancer}: two that balance would undo each other's work.")


# -- whether the load says anything ----------------------------------------------------------------


def load_known(situation: Situation) -> Reason | None:
    load_view = situation.observed.load_view
    if load_view and load_view.load.as_of and situation.observed.imbalance:
        return None
    return Reason("no-load", "No load is known yet: what brokers carry cannot be judged.")


def load_fresh(situation: Situation) -> Reason | None:
    if situation.observed.load_view is None or situation.observed.load_view.load.as_of is None:
        return None
    age = situation.now - situation.observed.load_view.load.as_of
    if -MAX_CLOCK_AHEAD <= age <= timedelta(seconds=situation.settings.stale_seconds):
        return None
    if age < timedelta(0):
        return Reason("load-ahead", "The load is from the future: a clock has been set.")
    old = f"The load is {format_duration(age.total_seconds())} old"
    max_age = format_duration(situation.settings.stale_seconds)
    return Reason("stale-load", f"{old}, and says nothing of now beyond {max_age}.")


def load_good(situation: Situation) -> Reason | None:
    load_view = situation.observed.load_view
    if load_view is None:
        return None
    if load_view.load.source is Source.LIVE and load_view.intervals < MIN_LIVE_INTERVALS:
        return Reason(
            "few-looks",
            f"There are {load_view.intervals} of the collector's intervals; {MIN_LIVE_INTERVALS} "
            "in succession are needed where there is no window of Spark's.",
        )
    if load_view.good >= MIN_KNOWN_PART:
        return None
    return Reason(
        "poor-load",
        f"The load of {1 - load_view.good:.0%} of the partitions is not known well enough "
        f"({1 - MIN_KNOWN_PART:.0%} may be).",
    )


# -- whether now is the time -----------------------------------------------------------------------


def lasts(situation: Situation) -> Reason | None:
    if situation.imbalance_lasts or situation.leader_imbalance_lasts:
        return None
    by_place, by_leader = situation.observed.imbalance, situation.observed.leader_imbalance
    assert by_place is not None
    off, lasting = by_place, situation.history.lasting
    if not by_place.outside and by_leader is not None:
        off, lasting = by_leader, situation.history.leader_spans
    known = [lasting[place] for place in off.outside if place in lasting]
    longest = max(known, key=lambda one: (one.seconds, one.snapshots), default=None)
    seen, looks = (longest.seconds, longest.snapshots) if longest else (0.0, 0)
    minimum = format_duration(situation.settings.min_imbalance_seconds)
    snapshots = counted(looks, "snapshot")
    return Reason(
        "not-lasting",
        f"{off.sentence}, but in {snapshots} over {format_duration(seen)} "
        f"only: {situation.settings.min_snapshots} over {minimum} are worth a run.",
    )


def busy_hours(situation: Situation) -> Reason | None:
    hours = situation.settings.avoid
    if not hours.holds(situation.now.astimezone()):
        return None
    return Reason("busy-hours", f"Nothing is begun in busy hours ({hours.text}).")


def maintenance(situation: Situation) -> Reason | None:
    windows = situation.settings.only
    if not windows or windows.holds(situation.now.astimezone()):
        return None
    return Reason("no-window", f"Runs begin in maintenance windows only ({windows.text}).")


def cool_down(situation: Situation) -> Reason | None:
    ends = [act.ended_at for act in situation.history.acts]
    ends += [situation.observed.run_ended_at, situation.history.failed_at]
    last = max((at for at in ends if at is not None), default=None)
    if last is None:
        return None
    left = situation.settings.cool_down_seconds - (situation.now - last).total_seconds()
    if left <= 0:
        return None
    more = format_duration(left)
    return Reason("cool-down", f"Cooling down after what was done last: {more} more.")


def budget(situation: Situation) -> Reason | None:
    settings = situation.settings
    spent, moves = situation.history.spent(situation.now)
    if spent >= settings.max_bytes_per_hour:
        of = f"{format_bytes(spent)} of {format_bytes(settings.max_bytes_per_hour)}"
        return Reason("budget", f"The hour's budget of bytes is used up: {of}.")
    if moves >= settings.max_moves_per_hour:
        of = f"{moves} of {settings.max_moves_per_hour}"
        return Reason("budget", f"The hour's budget of moves is used up: {of}.")
    return None


SAFETY: tuple[Guard, ...] = (
    read_only,
    broker_down,
    controller,
    without_leader,
    out_of_sync,
    own_run,
    dead_run,
    unreadable_journal,
    foreign_move,
    cruise_control,
    load_known,
    load_fresh,
    load_good,
)
TIMELY: tuple[Guard, ...] = (lasts, busy_hours, maintenance, cool_down, budget)
