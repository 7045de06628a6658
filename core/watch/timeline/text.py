"""The timeline as text: an event in a line, related events in a few, and Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from core.cluster.metadata import Broker, Topic
from core.text.tables import markdown_cell
from core.units import format_duration
from core.watch.timeline.events import ALL_KINDS, Event, Kind, LogNote, Note, Replicas

MAX_PAUSE = timedelta(seconds=5)
"""What follows within this time belongs to the same happening."""
NOBODY = "nobody"
MAX_NAMED = 3
"""So many topics of a happening are named; of more only how many there are."""


def format_event(event: Event) -> str:
    """Return one event as a line without its time."""
    match event.before, event.after:
        case (Broker(), _) | (_, Broker()):
            return _broker(event)
        case (Replicas() as before, Replicas() as after):
            texts = (text for _, text, _ in _replica_changes(event.kind, before, after))
            return f"{event.tp} {', '.join(texts)}"
        case (None, Replicas() as after):
            return f"{event.tp} came, on {_ids(after.replicas)}"
        case (Replicas(), None):
            return f"{event.tp} went"
        case (Topic() as before, Topic() as after):
            pairs = zip(before.configs.items(), after.configs.values(), strict=True)
            known = ((name, old, new) for (name, old), new in pairs if None not in (old, new))
            texts = (f"{name} {old} → {new}" for name, old, new in known if old != new)
            return f"topic {event.topic}: {', '.join(texts)}"
        case (None, Topic()):
            return f"topic {event.topic} was created"
        case (Topic(), None):
            return f"topic {event.topic} was deleted"
        case (_, LogNote(by, text)) if event.tp is not None:
            return f"{by}: {event.tp} {text}"
        case (_, Note(by, text)):
            return f"{by}: {text}"
    if event.kind & Kind.GAP:
        seconds = event.after if isinstance(event.after, int) else 0
        if seconds < 0:
            back = format_duration(-seconds)
            return f"this machine's clock was set back by {back}: until then times stand still"
        return f"nobody looked for {format_duration(seconds)}: only what lasted is known"
    last = "" if event.before is None else f", before it {event.before}"
    return f"broker {event.after} is the controller{last}"


def _broker(event: Event) -> str:
    broker = event.after if isinstance(event.after, Broker) else event.before
    assert isinstance(broker, Broker)
    name = f"broker {broker.id}"
    if event.after is None:
        return f"{name} is known no more"
    if event.before is None:
        return f"{name} came{f', in rack {broker.rack}' if broker.rack else ''}"
    if event.kind & Kind.BROKER_DOWN:
        return f"{name} went down"
    if event.kind & Kind.BROKER_UP:
        return f"{name} is back"
    rack = f", rack {broker.rack}" if broker.rack else ""
    return f"{name} is at {broker.host}:{broker.port} now{rack}"


def _replica_changes(
    kind: Kind, before: Replicas, after: Replicas
) -> Iterator[tuple[Kind, str, str]]:
    """Yield each thing that changed of a partition, in words, and the head that it counts under."""
    in_sync = f"({len(after.isr)} of {len(after.replicas)})"
    if kind & Kind.OFFLINE:
        yield Kind.OFFLINE, f"has no leader (was {before.leader})", str(before.leader)
    if kind & Kind.LEADER:
        was, about = (before.leader, str(before.leader)) if before.leader >= 0 else ("none", NOBODY)
        yield Kind.LEADER, f"leader {was} → {after.leader}", about
    if kind & Kind.ISR_SHRINK:
        gone = sorted(set(before.isr) - set(after.isr))
        text = _ids(b for b in before.isr if b in gone and b in after.replicas)
        yield Kind.ISR_SHRINK, f"ISR without {text} {in_sync}", _ids(gone)
    if kind & Kind.ISR_EXPAND:
        come = sorted(set(after.isr) - set(before.isr))
        text = _ids(b for b in after.isr if b in come)
        yield Kind.ISR_EXPAND, f"ISR with {text} {in_sync}", _ids(come)
    if kind & Kind.ASSIGNMENT:
        text = _assignment_text(before, after)
        yield Kind.ASSIGNMENT, text, text.split(" ")[0]


def _assignment_text(before: Replicas, after: Replicas) -> str:
    if after.adding or after.removing:
        target = [b for b in after.replicas if b not in after.removing]
        return f"moves {_ids(_original_replicas(before))} → {_ids(target)}"
    if before.adding or before.removing:
        if before.adding and set(after.replicas) == set(_original_replicas(before)):
            return f"went back, on {_ids(after.replicas)} again"
        return f"has moved, now on {_ids(after.replicas)}"
    if set(before.replicas) == set(after.replicas):
        return f"order {_ids(before.replicas)} → {_ids(after.replicas)}"
    return f"replicas {_ids(before.replicas)} → {_ids(after.replicas)}"


def _original_replicas(of: Replicas) -> list[int]:
    return [b for b in of.replicas if b not in of.adding]


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers)) or "none"


@dataclass(slots=True)
class EventGroup:
    """Events of one kind that followed each other closely, and belong to the same brokers."""

    kind: Kind
    about: str
    began: datetime
    ended: datetime
    events: list[Event] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Return it in one sentence, without its time."""
        if len(self.events) == 1:
            return format_event(self.events[0])
        return f"{_count_text(self)}{_scope_text(self)}"


def group_events(events: Iterable[Event], kinds: Kind = ALL_KINDS) -> list[EventGroup]:
    """Return what happened, of `kinds` or of all, in the order in which it began."""
    groups: list[EventGroup] = []
    open_ones: dict[tuple[Kind, str], EventGroup] = {}
    for event in events:
        for kind, about in _event_group_keys(event):
            if kinds and not kind & kinds:
                continue
            last = open_ones.get((kind, about))
            if last is None or event.at - last.ended > MAX_PAUSE:
                last = open_ones[kind, about] = EventGroup(kind, about, event.at, event.at)
                groups.append(last)
            last.ended = event.at
            last.events.append(event)
    # What two groups of one event alone would tell is told once.
    reported: set[int] = set()
    kept = []
    for group in groups:
        if len(group.events) > 1 or id(group.events[0]) not in reported:
            kept.append(group)
        if len(group.events) == 1:
            reported.add(id(group.events[0]))
    return kept


def _event_group_keys(event: Event) -> Iterator[tuple[Kind, str]]:
    """Yield under which heads an event counts: of one partition several things may change."""
    before, after = event.before, event.after
    if isinstance(after, Note) and event.kind & Kind.CONFIG:  # the same on many brokers or topics
        yield event.kind, after.text
        return
    if isinstance(before, Replicas) and isinstance(after, Replicas):
        for kind, _, about in _replica_changes(event.kind, before, after):
            yield kind, about
    else:
        topic = event.topic if event.kind & Kind.PARTITION else format_event(event)
        yield event.kind, topic or ""


def _count_text(group: EventGroup) -> str:
    count = f"{len(group.events):,} partitions"
    if isinstance(group.events[0].after, Note) and group.kind is not Kind.CONFIG:
        return f"{format_event(group.events[0])}, {len(group.events):,} times"
    match group.kind:
        case Kind.OFFLINE:
            return f"{count} have no leader (was {group.about})"
        case Kind.LEADER:
            of = "a leader again" if group.about == NOBODY else f"another leader than {group.about}"
            leaders = Counter(e.after.leader for e in group.events if isinstance(e.after, Replicas))
            each = ", ".join(f"{n:,} on {id}" for id, n in sorted(leaders.items()))
            return f"{count} have {of}: {each}"
        case Kind.ISR_SHRINK:
            return f"{count} lost {group.about} from their ISR"
        case Kind.ISR_EXPAND:
            return f"{count} have {group.about} in their ISR again"
        case Kind.ASSIGNMENT:
            what = {"moves": "began to move", "has": "have moved", "went": "went back"}
            what["order"] = "were re-ordered"
            return f"{count} {what.get(group.about, 'got other replicas')}"
        case Kind.PARTITION:
            gone = group.events[0].after is None
            return f"{count} of {group.about} {'went' if gone else 'came'}"
        case Kind.CONFIG if (topics := {e.topic for e in group.events}) and len(topics) > 1:
            return f"{len(topics):,} topics: {group.about}"
        case Kind.CONFIG if (
            len(brokers := sorted({b for e in group.events for b in e.brokers})) > 1
        ):
            return f"brokers {_ids(brokers)}: {group.about}"
        case _:
            return f"{format_event(group.events[0])}, {len(group.events):,} times"


def _scope_text(group: EventGroup) -> str:
    topics = sorted({e.topic for e in group.events if e.topic})
    many = "" if group.kind is Kind.CONFIG else f"{len(topics):,} topics"
    named = ", ".join(topics) if len(topics) <= MAX_NAMED else many
    of = f" ({named})" if group.kind is not Kind.PARTITION and named else ""
    seconds = (group.ended - group.began).total_seconds()
    return f"{of}, over {seconds:.0f} s" if seconds >= 1 else of


def to_markdown(title: str, rows: Iterable[tuple[datetime, str]]) -> str:
    """Return rows of (when, what) under a title; times in UTC."""
    lines = [f"## {title}", "", "| when (UTC) | what |", "|---|---|"]
    for at, text in rows:
        here = at.astimezone(UTC)
        when = f"{here:%Y-%m-%d %H:%M:%S}.{here.microsecond // 100_000}"
        lines.append(f"| {when} | {markdown_cell(text)} |")
    return "\n".join(lines) + "\n"
