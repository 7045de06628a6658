"""The rules that keep an autopilot from acting, each with the reason in one sentence. Pure."""

from __future__ import annotations

from collections.abc import Iterator
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


def check_safety(situation: Situation) -> tuple[Reason, ...]:
    """Return what speaks against a change whatever brokers carry, and against the load itself."""
    return (*_check_cluster(situation), *_check_load(situation))


def _check_cluster(situation: Situation) -> Iterator[Reason]:
    """Yield why the cluster is not fit to be changed."""
    observed, state = situation.observed, situation.state
    if observed.read_only:
        yield Reason("read-only", "config.toml marks this cluster read_only: nothing is done.")
    elif observed.config_error:  # a misspelt read_only must not leave a cluster writable
        yield Reason("config", f"Not until config.toml can be read: {observed.config_error}")
    down = {broker.id for broker in state.brokers if not broker.alive}
    down |= set(np.unique(state.replica_broker).tolist()) - state.broker_by_id.keys()
    if down:
        names = ", ".join(map(str, sorted(down)))
        yield Reason("broker-down", f"Not while a broker is down: {names}.")
    since = situation.history.controller_since
    if state.controller is None:
        yield Reason("no-controller", "Not while the cluster has no controller.")
    elif since is not None and situation.now - since < CONTROLLER_STEADY:
        ago = format_duration((situation.now - since).total_seconds())
        yield Reason("controller", f"Not while the controller is changing: it did {ago} ago.")
    if leaderless := int((state.leader < 0).sum()):
        yield Reason("no-leader", f"Not while partitions have no leader: {leaderless}.")
    # A replica that is arriving is no member of the ISR yet; it is told as a move.
    late = state.partition_of_replica[~state.in_sync & ~state.adding]
    if len(late):
        many = counted(len(np.unique(late)), "partition")
        yield Reason("out-of-sync", f"Not while replicas are out of sync: {many}.")
    yield from _check_runs(situation)
    if (balancer := find_balancer(state)) is not None:
        why = f"{balancer}: two that balance would undo each other's work."
        yield Reason("cruise-control", why)


def _check_runs(situation: Situation) -> Iterator[Reason]:
    """Yield which runs, or moves of others, are in the way."""
    observed = situation.observed
    started = (act.run for act in situation.history.acts if act.ended_at is None)
    going = (run for run in started if run not in (*observed.running, *observed.died))
    run = next(iter((*observed.running, *going)), None)
    if run is not None:
        yield Reason("run", f"Run {run} is in progress: its end is waited for.")
    for run in observed.died[:1]:
        yield Reason("dead-run", f"Run {run} has died in the middle: trimtab runs attach {run}.")
    for why in observed.unreadable[:1]:
        yield Reason("journal", f"Not while a run's journal cannot be read: {why}")
    if observed.running:
        return  # whose moves these are is the run's to say
    moving_partitions = {move.tp for move in foreign_moves(situation.state, ())}
    if moving := sorted(moving_partitions | observed.reassignments.keys()):
        yield Reason("foreign-move", f"Not while somebody else moves {name_list(moving)}.")


def _check_load(situation: Situation) -> Iterator[Reason]:
    """Yield why the load says nothing."""
    load_view = situation.observed.load_view
    as_of = None if load_view is None else load_view.load.as_of
    if as_of is None or not situation.observed.imbalance:
        yield Reason("no-load", "No load is known yet: what brokers carry cannot be judged.")
    if as_of is not None:
        age, stale = situation.now - as_of, situation.settings.stale_seconds
        if age < -MAX_CLOCK_AHEAD:
            yield Reason("load-ahead", "The load is from the future: a clock has been set.")
        elif age > timedelta(seconds=stale):
            old = f"The load is {format_duration(age.total_seconds())} old"
            max_age = format_duration(stale)
            yield Reason("stale-load", f"{old}, and says nothing of now beyond {max_age}.")
    if load_view is None:
        return
    if load_view.load.source is Source.LIVE and load_view.intervals < MIN_LIVE_INTERVALS:
        yield Reason(
            "few-looks",
            f"There are {load_view.intervals} of the collector's intervals; {MIN_LIVE_INTERVALS} "
            "in succession are needed where there is no window of Spark's.",
        )
    elif load_view.good < MIN_KNOWN_PART:
        yield Reason(
            "poor-load",
            f"The load of {1 - load_view.good:.0%} of the partitions is not known well enough "
            f"({1 - MIN_KNOWN_PART:.0%} may be).",
        )


def check_timing(situation: Situation) -> Iterator[Reason]:
    """Yield why now is not the time: what lasts, the hours, and the budget of the last one."""
    settings = situation.settings
    if not (situation.imbalance_lasts or situation.leader_imbalance_lasts):
        yield _short_imbalance_reason(situation)
    here = situation.now.astimezone()
    if settings.avoid.holds(here):
        yield Reason("busy-hours", f"Nothing is begun in busy hours ({settings.avoid.text}).")
    if settings.only and not settings.only.holds(here):
        windows = settings.only.text
        yield Reason("no-window", f"Runs begin in maintenance windows only ({windows}).")
    ends = [act.ended_at for act in situation.history.acts]
    ends += [situation.observed.run_ended_at, situation.history.failed_at]
    last = max((at for at in ends if at is not None), default=None)
    if last is not None:
        left = settings.cool_down_seconds - (situation.now - last).total_seconds()
        if left > 0:
            more = format_duration(left)
            yield Reason("cool-down", f"Cooling down after what was done last: {more} more.")
    spent, moves = situation.history.spent(situation.now)
    if spent >= settings.max_bytes_per_hour:
        of = f"{format_bytes(spent)} of {format_bytes(settings.max_bytes_per_hour)}"
        yield Reason("budget", f"The hour's budget of bytes is used up: {of}.")
    elif moves >= settings.max_moves_per_hour:
        of = f"{moves} of {settings.max_moves_per_hour}"
        yield Reason("budget", f"The hour's budget of moves is used up: {of}.")


def _short_imbalance_reason(situation: Situation) -> Reason:
    off, by_leader = situation.imbalance, situation.observed.leader_imbalance
    if not off.outside and by_leader is not None:
        off = by_leader
    lasting = situation.history.lasting
    known = [lasting[place] for place in off.outside if place in lasting]
    longest = max(known, key=lambda span: (span.seconds, span.snapshots), default=None)
    seconds, snapshots = (longest.seconds, longest.snapshots) if longest else (0.0, 0)
    minimum = format_duration(situation.settings.min_imbalance_seconds)
    return Reason(
        "not-lasting",
        f"{off.sentence}, but in {counted(snapshots, 'snapshot')} over {format_duration(seconds)} "
        f"only: {situation.settings.min_snapshots} over {minimum} are worth a run.",
    )
