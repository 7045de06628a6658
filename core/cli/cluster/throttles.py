"""`trimtab throttles`: every throttle, explained, and cleared where no move needs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from core.cli.common.context import Context
from core.cli.common.every_cluster import (
    ClusterAnswer,
    all_option,
    ask_every_cluster,
    write_answers,
)
from core.cli.common.options import Group, answer_options, json_option, yes_option
from core.cli.common.output import Answer, emit, say
from core.cli.topics.topic_data import require_topic
from core.cluster.client import ClusterClient
from core.cluster.configs import Resource, ResourceKind
from core.cluster.kafka_errors import Fault
from core.cluster.state import ClusterState
from core.errors import ExitCode, IncompleteError, UsageError
from core.run import audit
from core.run.audited_client import audited
from core.run.external import clearing as act
from core.run.external.leftovers import REMEDY, find_left_probes
from core.run.external.throttles import Throttle, fetch_throttles
from core.run.reporting.runs import refuse_unreadable, unreadable, with_throttles
from core.text.tables import text_table
from core.units import parse_id

MAX_NAMED = 5


@click.group(cls=Group)
def throttles() -> None:
    """List and clear replication throttles."""


@throttles.command("ls")
@all_option
@answer_options
@click.pass_obj
def ls(context: Context, every: bool, answer: Answer) -> int:
    """List all throttles, who set them, and whether a move in flight needs them."""
    if every:
        answers = ask_every_cluster(context, _fetch_listing)
        return write_answers(answer, answers, _documents, lambda: _clusters_table(answers))
    listing = _fetch_listing(context)
    none = "No throttle is set." if listing.is_complete else "No other throttle is set."
    answer.write_table(listing.throttles, Throttle.to_json, HEADER, _row, none=none)
    return ExitCode.DONE


@dataclass(frozen=True, slots=True)
class _ThrottleListing:
    throttles: Sequence[Throttle]
    is_complete: bool
    """Whether those of all resources could be read."""


def _fetch_listing(context: Context) -> _ThrottleListing:
    with context.connected() as connection:
        state = connection.client.describe_cluster()
        limits, denied = fetch_throttles(connection.client, state, with_throttles(state.cluster_id))
    for wrong in unreadable(state.cluster_id):
        context.say(wrong)
    down = [str(broker.id) for broker in state.brokers if not broker.alive]
    if down:
        context.say(f"Brokers that are down could not be asked: {', '.join(down)}.")
    _report_denied(denied, context.say)
    return _ThrottleListing(limits, not denied)


def _documents(listing: _ThrottleListing) -> list[dict[str, Any]]:
    return [throttle.to_json() for throttle in listing.throttles]


def _clusters_table(answers: Sequence[ClusterAnswer[_ThrottleListing]]) -> str:
    known = [
        (answer.name or "", answer.answer.throttles)
        for answer in answers
        if answer.answer is not None
    ]
    rows = [(name, *_row(throttle)) for name, throttles in known for throttle in throttles]
    if not rows:
        names = ", ".join(name for name, _ in known) or "any cluster"
        return f"No throttle is known on {names}.\n"
    return text_table(("CLUSTER", *HEADER), rows)


@throttles.command("clear")
@click.argument("names", nargs=-1, metavar="[topic:NAME | broker:ID] …")
@yes_option
@json_option
@click.pass_obj
def clear(context: Context, names: tuple[str, ...], yes: bool, as_json: bool) -> int:
    """Clear the throttles that no move in flight needs.

    Lists them and asks for confirmation. A named topic or broker is cleared even if a move in
    flight needs its throttle, or if it is `*`. Throttles of a run in progress here are never
    changed.
    """
    context.require_writable()
    named = [_parse_resource(name) for name in names]
    with context.described(to_change=True) as (connection, state):
        for named_resource in named:
            _require_exists(connection.client, state, named_resource)
        runs = with_throttles(state.cluster_id)
        refuse_unreadable(state.cluster_id, "holds throttles")
        clearing = act.plan_clearing(connection.client, state, runs, named)
        _report_denied(clearing.faults, say)
        for probe in find_left_probes(state, runs):
            say(f"Left: {probe}. {REMEDY}")
        for throttle, why in clearing.kept:
            at = f"{throttle.resource.kind.value} {throttle.resource.name}"
            say(f"Kept: {at} {throttle.config}={throttle.value}: {why}.")
        if clearing.changes and not yes:
            say("These would be cleared:")
            say(text_table(HEADER, [_row(limit) for limit in clearing.cleared]).removesuffix("\n"))
            context.confirm(state.cluster_id, "clear them", "Clearing", "nothing was changed")
        now = connection.client.describe_cluster(), with_throttles(state.cluster_id)
        if act.plan_clearing(connection.client, *now, named).changes != clearing.changes:
            raise IncompleteError(
                "The cluster's throttles have changed; nothing was cleared.",
                next="See `trimtab throttles ls`, and try again.",
            )
        failed: dict[Resource, str] = {}
        if clearing.changes:
            audit.note(state.cluster_id, None, "clear", throttles=len(clearing.cleared))
            client = audited(connection.client, state.cluster_id, None)
            failed = act.clear(client, connection.clock, clearing)
    cleared = [t for t in clearing.cleared if t.resource not in failed]
    if as_json:
        emit(
            {
                "cleared": [throttle.to_json() for throttle in cleared],
                "kept": [throttle.to_json() | {"kept": why} for throttle, why in clearing.kept],
                "failed": [
                    throttle.to_json() | {"failed": failed[throttle.resource]}
                    for throttle in clearing.cleared
                    if throttle.resource in failed
                ],
            }
        )
    for resource, why in failed.items():
        say(f"{resource.kind.value} {resource.name} was not cleared: {why}.")
    say(f"Cleared {len(cleared)}." if clearing.cleared else "There is nothing to clear.")
    return ExitCode.FAILED if failed else ExitCode.DONE


def _parse_resource(name: str) -> Resource:
    kind, _, rest = name.partition(":")
    if kind == "topic" and rest:
        return Resource.topic(rest)
    if kind == "broker" and rest:
        return Resource.broker(parse_id(rest))
    raise UsageError(
        f"Not a topic or a broker: {name!r}.", next="Write it like topic:orders or broker:7."
    )


def _require_exists(client: ClusterClient, state: ClusterState, resource: Resource) -> None:
    if resource.kind is ResourceKind.TOPIC:
        require_topic(client, state, resource.name)
    elif int(resource.name) not in state.broker_by_id:
        known = ", ".join(map(str, state.broker_ids.tolist()))
        raise UsageError(f"There is no broker {resource.name}.", next=f"The brokers are {known}.")


def _report_denied(denied: Mapping[Resource, Fault], report: Callable[[str], None]) -> None:
    for resource, fault in list(denied.items())[:MAX_NAMED]:
        report(f"The throttles of {resource.kind.value} {resource.name} are not known: {fault}.")
    if len(denied) > MAX_NAMED:
        report(f"Those of {len(denied) - MAX_NAMED} more are unknown as well.")


HEADER = ("WHERE", "CONFIG", "VALUE", "SOURCE", "WHY")


def _row(throttle: Throttle) -> tuple[str, ...]:
    where = f"{throttle.resource.kind.value} {throttle.resource.name}"
    return where, throttle.config, throttle.value, throttle.source.value, throttle.why
