"""A run told in text: what was asked, what became of it, and what one that died left behind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from core.cluster.client import ClusterClient, Fault, Resource, ResourceKind
from core.cluster.faults import is_missing
from core.cluster.state import TopicPartition
from core.plan.throttle_lists import entries
from core.run.limits import throttle
from core.run.limits.throttle import RateIntent, Side
from core.run.record.records import Record
from core.run.record.retention import RETENTION
from core.run.tell.changes import changes
from core.run.tell.runs import Reading
from core.run.tell.view import Leftovers, LoweredRetention, MoveState, RunState, RunView
from core.terminal import printable
from core.units import UNLIMITED, format_bytes, format_duration, format_rate, format_time

_SHOWN = 40
_MARKS = {
    MoveState.QUEUED: " ",
    MoveState.MOVING: "→",
    MoveState.STUCK: "!",
    MoveState.DONE: "√",
    MoveState.FAILED: "x",
    MoveState.CANCELLED: "-",
    MoveState.SKIPPED: "-",
}


def headline(view: RunView) -> str:
    """Return where the run stands, in one line."""
    parts = [
        f"run {view.run} on {view.cluster_name}: {view.state.value}",
        f"{view.done:,} of {view.partitions:,} done",
    ]
    if view.total_bytes:
        parts.append(f"{format_bytes(view.moved_bytes)} of {format_bytes(view.total_bytes)}")
    if not view.state.ended and view.left_seconds is not None:
        parts.append(f"{format_duration(view.left_seconds)} left")
    if view.ended_at is not None:
        parts.append(f"took {format_duration(view.elapsed_seconds)}")
    return ", ".join(parts)


def asked_lines(created: Record) -> list[str]:
    """Return what was asked for as the run was made, one line each."""
    p, options = created.payload, created.payload["options"]
    came = f", {p['from']}" if p.get("from") else ""
    rate = options["rate_bytes_per_s"]
    limit = "no throttle"
    if rate != UNLIMITED:
        limit = f"throttle {format_rate(rate)} a broker and side"
    if bounds := options.get("auto"):
        least, most = format_rate(bounds["least_bytes_per_s"]), bounds["most_bytes_per_s"]
        limit = f"throttle adapted between {least} and {format_rate(most)} a broker and side"
    seconds = (p["estimate"] or {}).get("seconds")
    estimated = format_duration(seconds) if seconds else "not known"
    if apart := options.get("apart"):
        limit += f", less for {len(apart)} of them"
    lines = [
        f"asked for by {p['who']} on {p['host']}{came} at {format_time(created.at)}",
        f"{len(p['moves']):,} partitions, {limit}, estimated {estimated}",
    ]
    if options.get("at"):
        lines.append(f"to start at {options['at']}")
    if options.get("retention"):
        lowered = format_duration(options["retention"]["ms"] / 1000)
        lines.append(f"with the retention of its topics lowered to {lowered} meanwhile")
    if options.get("elect"):
        lines.append("with preferred leaders elected at the end")
    if options.get("most_extra_bytes"):
        most = format_bytes(options["most_extra_bytes"])
        lines.append(f"no broker to receive more than {most} at a time")
    if options.get("if_throttles_removed"):
        lines.append("to pause when somebody takes its throttles away again and again")
    if options["override_rates"]:
        lines.append("over lower rates that somebody else has set")
    if options["allow"]:
        lines.append(f"although these checks spoke against it: {', '.join(options['allow'])}")
    return lines


def report(look: Reading) -> str:
    """Return the text of `runs show`."""
    view = look.view
    lines = [
        headline(view),
        *([f"  {view.why}"] if view.why else []),
        *(f"  {line}" for line in asked_lines(look.records[0])),
        "",
    ]
    width = max((len(str(m.tp)) for m in view.moves[:_SHOWN]), default=0)
    for m in view.moves[:_SHOWN]:
        size = f"{format_bytes(m.moved_bytes)} / {format_bytes(m.total_bytes)}"
        way = f"{_brokers(m.before)} → {m.target_words}"
        says = f"{m.state.value}{': ' if m.why else ''}{m.why}"
        lines.append(f"  {_MARKS[m.state]} {m.tp!s:<{width}}  {way}  {size}  {says}")
    if len(view.moves) > _SHOWN:
        lines.append(f"    and {len(view.moves) - _SHOWN} more (--json has all of them)")
    configs = changes(look.records, look.history)
    if configs:
        lines += ["", "  configs: before → during → after"]
    lines += [
        f"    {c.where}: {c.before_words} → {c.during_words} → {c.after_words}"
        for c in configs[:_SHOWN]
    ]
    if len(configs) > _SHOWN:
        lines.append(f"    and {len(configs) - _SHOWN} more (--json has all of them)")
    waiting = [f"  waits to be taken up: {r.what}, {r.who}" for r in view.requests if not r.taken]
    lines += [
        "",
        *(f"  {e.at:%H:%M:%S}  {printable(e.text)}" for e in view.events[-_SHOWN:]),
        *waiting,
    ]
    if view.leftovers is not None:
        lines += ["", *left_lines(view.leftovers)]
    if view.state is RunState.DIED:
        lines += ["", brings_back(view.run)]
    return "\n".join(lines) + "\n"


def brings_back(run: str) -> str:
    """Return what to do about a run whose process has died."""
    return f"Bring it back, to go on where it was: trimtab runs attach {run} --yes"


def left_lines(left: Leftovers) -> list[str]:
    """Return what a run left in the cluster, one line each."""
    if not left:
        return ["It left nothing in the cluster."]
    return ["It left in the cluster:", *(f"  {words}" for words in left_words(left))]


def left_words(left: Leftovers) -> Iterator[str]:
    """Yield each thing that a run left in the cluster, in words."""
    if left.moves:
        yield f"in flight: {', '.join(str(tp) for tp in left.moves)}"
    for topic, side, pairs in left.lists:
        yield f"{side} throttle list of {topic}: {','.join(pairs)}"
    for r in left.rates:
        rate = format_rate(r.rate_bytes_per_s)
        yield f"{r.side.value} throttle rate of broker {r.broker}: {rate}"
    for lowered in left.retention:
        yield f"retention of {lowered.topic}: {lowered.words}"


def left_in_cluster(client: ClusterClient, left: Leftovers, *, surely: bool = False) -> Leftovers:
    """Return what of `left` still stands, asked of the cluster itself.

    What cannot be asked, as brokers that are down, is taken for standing unless `surely`.
    """
    flying = {*client.reassignments(), *_copied(client, left)}
    topics = sorted({t for t, _, _ in left.lists} | {r.topic for r in left.retention})
    alive = {broker.id for broker in client.describe().brokers if broker.alive}
    brokers = sorted(alive & {rate.broker for rate in left.rates})
    resources = [*map(Resource.topic, topics), *map(Resource.broker, brokers)]
    names = [*throttle.LISTS, *throttle.RATES, RETENTION]
    found = client.configs(resources, names) if resources else {}

    def pairs(topic: str, side: str, ours: tuple[str, ...]) -> tuple[str, ...]:
        answer = found.get(Resource.topic(topic), {})
        if isinstance(answer, Fault):
            return () if surely or is_missing(answer) else ours
        there = entries(throttle.own_list(answer, Side(side)))
        return tuple(pair for pair in ours if pair in there)

    def standing(rate: RateIntent) -> RateIntent | None:
        answer = found.get(Resource.broker(rate.broker))
        if answer is None or isinstance(answer, Fault):
            return None if surely else rate
        if not throttle.is_ours(rate, answer):
            return None
        held = throttle.as_rate(throttle.own_rate(answer, rate.side))
        return replace(rate, rate_bytes_per_s=held, perhaps=())

    def lowered(one: LoweredRetention) -> bool:
        answer = found.get(Resource.topic(one.topic), {})
        if isinstance(answer, Fault):
            return not (surely or is_missing(answer))
        own = throttle.own_value(answer.get(RETENTION), ResourceKind.TOPIC)
        return own == str(one.retention_ms)

    lists = [(topic, side, pairs(topic, side, ours)) for topic, side, ours in left.lists]
    return Leftovers(
        moves=tuple(tp for tp in left.moves if tp in flying),
        lists=tuple(entry for entry in lists if entry[2]),
        rates=tuple(rate for rate in map(standing, left.rates) if rate is not None),
        retention=tuple(filter(lowered, left.retention)),
    )


def _copied(client: ClusterClient, left: Leftovers) -> set[TopicPartition]:
    """Return the partitions of which a replica is on its way to another log dir, or may be."""
    answers = client.log_dirs(sorted({broker for _, broker in left.copies})) if left.copies else ()
    silent = {answer.broker for answer in answers if answer.error is not None}
    found = {tp for tp, broker in left.copies if broker in silent}
    for answer in answers:
        here = {tp for tp, broker in left.copies if broker == answer.broker}
        copies = {TopicPartition(r.topic, r.partition) for r in answer.replicas if r.future}
        found |= here & copies
    return found


def _brokers(replicas: tuple[int, ...]) -> str:
    return ",".join(str(broker) for broker in replicas)
