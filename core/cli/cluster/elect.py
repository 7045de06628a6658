"""`trimtab elect`: elects preferred leaders, and shows first how many are led elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import click
import numpy as np

from core.cli.common.context import Context, report_unknown
from core.cli.common.options import Command, json_option, refuse_together, yes_option
from core.cli.common.output import emit, say, write_text
from core.cli.topics.topic_data import matching_topics, require_topic
from core.cluster.client import ClusterClient
from core.cluster.kafka_errors import Fault, is_leader_elected
from core.cluster.leaders import (
    REBALANCE_CONFIGS,
    BrokerLeaders,
    Election,
    fetch_rebalance_settings,
    leader_imbalance,
    partition_rows,
    preferred_elections,
    unclean_elections,
)
from core.cluster.metadata import TopicPartition
from core.cluster.state import ClusterState, Int64
from core.errors import ExitCode, UsageError
from core.text.tables import text_table

ROWS = 50
"""Partitions that are printed one by one; --json has them all."""

_NOT_AVAILABLE = (
    *("PREFERRED_LEADER_NOT_AVAILABLE", "ELIGIBLE_LEADERS_NOT_AVAILABLE"),
    "UNKNOWN_TOPIC_OR_PARTITION",
)


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What became of one election: planned, elected, left or failed; `why` of the last two."""

    election: Election
    what: str
    why: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            **self.election.tp._asdict(),
            "leader": self.election.leader,
            "to": self.election.to,
            "isr": list(self.election.in_sync),
            "down": list(self.election.down),
            "outcome": self.what,
            "why": self.why or None,
        }


@click.command(cls=Command)
@click.option(
    "--topics",
    metavar="REGEX",
    help="Only elect leaders of topics whose whole name matches (default: all).",
)
@click.option(
    "--partitions",
    metavar="TOPIC-N,…",
    help="Only elect leaders of these partitions, like orders-3.",
)
@click.option(
    "--unclean",
    is_flag=True,
    help="Elect replicas outside the ISR where a partition has no leader: DATA IS LOST.",
)
@click.option("--dry-run", is_flag=True, help="Only show the elections and the imbalance.")
@yes_option
@json_option
@click.pass_obj
def elect(
    context: Context,
    topics: str | None,
    partitions: str | None,
    unclean: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Elect preferred leaders, of all partitions or of some.

    Shows the leader imbalance first. Partitions whose preferred replica is not in the ISR are
    listed and not changed. With --unclean, partitions without a leader get a live replica outside
    the ISR, and the records that it has not copied are lost.
    """
    refuse_together({"--topics": topics, "--partitions": partitions})
    if unclean and not (topics or partitions):
        raise UsageError(
            "An unclean election needs named partitions.",
            next="Add --partitions or --topics.",
        )
    with context.described(to_change=not dry_run) as (connection, state):
        client = connection.client
        report_unknown(state)
        rows = _select_rows(client, state, topics, partitions)
        brokers = leader_imbalance(state, rows)
        settings = fetch_rebalance_settings(client, state)
        elections = (unclean_elections if unclean else preferred_elections)(state, rows)
        able = [election for election in elections if not election.obstacle]
        if not as_json:
            write_text(_imbalance_text(brokers, settings), None)
        asks = bool(not dry_run and able and not yes)
        if asks:
            say("These would be elected:")
            planned = [_Outcome(election, "planned") for election in able]
            say(_rows(planned).removesuffix("\n"))
        for line in _loss_sentences(able) if unclean else ():
            say(line)
        if asks:
            verb = "lose that and elect" if unclean else "elect them"
            doing = "An unclean election" if unclean else "Electing"
            context.confirm(state.cluster_id, verb, doing, "nothing was elected")
        outcomes = [_Outcome(e, "left", e.obstacle) for e in elections if e.obstacle]
        if dry_run:
            outcomes += [_Outcome(election, "planned") for election in able]
        elif able:
            from core.run.audited_client import audited

            writer = audited(client, state.cluster_id, None)
            answers = writer.elect_leaders([e.tp for e in able], unclean=unclean)
            outcomes += [_outcome(e, answers.get(e.tp)) for e in able]
    outcomes.sort(key=lambda outcome: outcome.election.tp)
    if as_json:
        emit(
            {
                "kind": "unclean" if unclean else "preferred",
                "dry_run": dry_run,
                "brokers": [asdict(b) | {"imbalance": round(b.imbalance, 4)} for b in brokers],
                "rebalance": [_settings_json(b, answer) for b, answer in settings.items()],
                "elections": [outcome.to_json() for outcome in outcomes],
            }
        )
    else:
        _print_outcomes(outcomes, unclean)
    failed = sum(outcome.what == "failed" for outcome in outcomes)
    if not failed:
        return ExitCode.DONE
    return ExitCode.FAILED if failed == len(able) else ExitCode.INCOMPLETE


def _select_rows(
    client: ClusterClient, state: ClusterState, topics: str | None, partitions: str | None
) -> Int64:
    if topics is not None:
        return partition_rows(state, matching_topics(client, state, topics, "--topics"))
    if partitions is None:
        return partition_rows(state, None)
    rows = []
    for word in map(str.strip, partitions.split(",")):
        topic, _, number = word.rpartition("-")
        if not topic or not number.isdecimal():
            raise UsageError(f"Not a partition: {word!r}.", next="Write it like orders-3.")
        tp = TopicPartition(topic, int(number))
        row = state.find(tp)
        if row is None:
            require_topic(client, state, tp.topic)
            raise UsageError(
                f"There is no partition {tp}.",
                next=f"{tp.topic} has {len(state.partitions_of(tp.topic))}, counted from 0.",
            )
        rows.append(row)
    return np.array(sorted(set(rows)), np.int64)


def _loss_sentences(able: Sequence[Election]) -> list[str]:
    lines = [
        f"{e.tp}: what broker {e.to} has not copied from {_brokers(e.down)} is lost for good, also "
        "when they return."
        for e in able[:ROWS]
    ]
    if len(able) > ROWS:
        lines.append(f"The same holds for {len(able) - ROWS} more.")
    return lines


def _brokers(ids: Sequence[int]) -> str:
    if not ids:
        return "replicas that are offline"
    return f"broker{'s' if len(ids) > 1 else ''} {', '.join(map(str, sorted(ids)))}"


def _outcome(election: Election, fault: Fault | None) -> _Outcome:
    if fault is None or is_leader_elected(fault):
        return _Outcome(election, "elected", "" if fault is None else "it leads already")
    return _Outcome(election, "left" if fault.name in _NOT_AVAILABLE else "failed", str(fault))


def _settings_json(broker: int, answer: Mapping[str, str | None] | Fault) -> dict[str, Any]:
    unknown = str(answer) if isinstance(answer, Fault) else None
    values = {} if isinstance(answer, Fault) else answer
    enabled, interval, percentage = (values.get(name) for name in REBALANCE_CONFIGS)
    return {
        "broker": broker,
        "enabled": None if enabled is None else enabled == "true",
        "interval_seconds": None if interval is None else int(interval),
        "percentage": None if percentage is None else int(percentage),
        "unknown": unknown,
    }


def _imbalance_text(
    brokers: Sequence[BrokerLeaders], settings: Mapping[int, Mapping[str, str | None] | Fault]
) -> str:
    header = ("BROKER", "PREFERS", "LEADS", "AWAY", "IMBALANCE")
    rows = [
        (
            f"{b.broker}{'' if b.alive else ' (down)'}",
            *(str(b.prefers), str(b.leads), str(b.away)),
            f"{b.imbalance:.0%}",
        )
        for b in brokers
    ]
    return text_table(header, rows, right=" >>>>") + "\n" + _settings_text(settings) + "\n"


def _settings_text(settings: Mapping[int, Mapping[str, str | None] | Fault]) -> str:
    lines = []
    known = {b: answer for b, answer in settings.items() if not isinstance(answer, Fault)}
    for name in REBALANCE_CONFIGS if known else ():
        by_value: dict[str | None, list[int]] = {}
        for broker, values in known.items():
            by_value.setdefault(values.get(name), []).append(broker)
        parts = [
            (value if value is not None else "not reported")
            + ("" if len(by_value) == 1 else f" on {', '.join(map(str, ids))}")
            for value, ids in by_value.items()
        ]
        lines.append(f"{name}: {'; '.join(parts)}")
    if known and all(REBALANCE_CONFIGS[-1] not in values for values in known.values()):
        lines[-1] += " (KRaft: any imbalance is acted on at each interval)"
    for broker, answer in settings.items():
        if isinstance(answer, Fault):
            lines.append(f"Broker {broker} does not tell its settings: {answer}.")
    return "".join(f"{line}\n" for line in lines)


def _print_outcomes(outcomes: Sequence[_Outcome], unclean: bool) -> None:
    if not outcomes:
        say(
            "Nothing to elect: every partition has a leader."
            if unclean
            else "Nothing to elect: every partition is led by its preferred replica."
        )
        return
    for what, title in (
        ("planned", "Would be elected"),
        ("elected", "Elected"),
        ("left", "Not changed"),
        ("failed", "Failed"),
    ):
        if matches := [outcome for outcome in outcomes if outcome.what == what]:
            write_text(f"{title}: {len(matches):,}\n{_rows(matches)}", None)


def _rows(outcomes: Sequence[_Outcome]) -> str:
    rows = [
        (
            str(o.election.tp),
            "-" if o.election.leader is None else str(o.election.leader),
            "-" if o.election.to is None else str(o.election.to),
            o.why,
        )
        for o in outcomes
    ]
    return text_table(("PARTITION", "FROM", "TO", ""), rows, " >>", ROWS)
