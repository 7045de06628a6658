"""The impact of a plan in words: the sentences that screen and command line share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from core.cluster.groups import UNDESCRIBED
from core.plan.checks.catalogue import named
from core.plan.impact.clients import GroupTouched, Headroom, Impact
from core.plan.impact.retention import FOREVER_MS, HOUR, Reader, Shrinking
from core.units import counted, format_bytes, format_duration

NAMED = 3
WORTH = 0.1
"""The part of what is copied that a shorter retention must save to be spoken of."""


def in_short(found: Impact) -> list[str]:
    """Return what somebody should know before anything else, the worst first, a few words each."""
    said = []
    if found.headroom:
        said.append(f"{counted(len(found.headroom), 'partition')} with no replica to spare")
    unknown = " or more" if found.groups_unknown else ""
    if found.groups:
        said.append(f"read by {counted(len(found.groups), 'group')}{unknown}")
    leading = sum(topic.leader_changes > 0 for topic in found.topics)
    if leading:
        said.append(f"leaders change in {counted(leading, 'topic')}")
    shrunk = found.shrinking
    if shrunk is not None and shrunk.is_advised:
        saves = format_bytes(shrunk.most_bytes)
        said.append(f"retention {option(shrunk.seconds)} saves up to {saves}")
    if kinds := kinds_unknown(list(found.types_unknown.values())):
        said.append(f"who reads is not known for {kinds}")
    elif found.groups is None or (found.groups_unknown and not found.groups):
        said.append("who reads is not known")
    return said


def kinds_unknown(types: Sequence[str]) -> str:
    """Return how many groups there are of each type that tells nobody what it reads."""
    many = [(types.count(type), type) for type in UNDESCRIBED if type in types]
    return " and ".join(counted(count, f"{type} group") for count, type in many)


def groups_sentence(found: Impact) -> str:
    """Return what is to be said of groups beside, or instead of, those that are known to read it.

    "" where these are all.
    """
    if found.groups is None:
        return "Which consumer groups read them is not known."
    unknown = tuple(id for id in found.groups_unknown if id not in found.types_unknown)
    if kinds := kinds_unknown(list(found.types_unknown.values())):
        names = list(found.types_unknown)
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        first = f"Who reads is not known for {kinds} ({', '.join(names[:NAMED])}{more})."
        return f"{first} {_denied(unknown)}" if unknown else first
    return _denied(unknown) or ("" if found.groups else "No consumer group reads them.")


def _denied(unknown: Sequence[str]) -> str:
    if len(unknown) > NAMED:
        names = f"{', '.join(unknown[:NAMED])} and {counted(len(unknown) - NAMED, 'group')} more"
        return f"What consumer groups {names} read is not known."
    if unknown:
        group, reads = ("group", "reads") if len(unknown) == 1 else ("groups", "read")
        first, last = ", ".join(unknown[:-1]), unknown[-1]
        names = f"{first} and {last}" if first else last
        return f"What consumer {group} {names} {reads} is not known."
    return ""


def to_read_words(group: GroupTouched) -> str:
    """Return what comes while a group is interrupted: in messages where they are counted."""
    if group.catch_up_messages is not None:
        return f"{group.catch_up_messages:,} msgs"
    return format_bytes(group.catch_up_bytes)


def headroom_sentences(found: Sequence[Headroom]) -> list[str]:
    """Return what must not fail while the plan is carried out, and what it leaves without spare."""
    during = [h.tp for h in found if h.during <= 0]
    after = [h.tp for h in found if h.during > 0]
    said = []
    if during:
        said.append(
            f"{named(during)} {'has' if len(during) == 1 else 'have'} no in-sync replica to spare "
            "until moved: with one broker fewer, acks=all is refused. Restart no broker meanwhile."
        )
    if after:
        said.append(f"{named(after)} will have no replica to spare once moved.")
    return said


def shrinking_sentences(found: Shrinking) -> list[str]:
    """Return what lowering retention would save, and who speaks against it."""
    kept = option(found.seconds)
    longest = max(topic.retention_ms for topic in found.topics)
    endless = any(topic.retention_ms == FOREVER_MS for topic in found.topics)
    now = "no end" if endless else option(longest // 1000)
    topics = ", ".join(
        f"{topic.topic} {format_bytes(topic.most_bytes)}" for topic in found.topics[:NAMED]
    )
    more = len(found.topics) - NAMED
    saves = f"{format_bytes(found.least_bytes)} to {format_bytes(found.most_bytes)}"
    said = [
        f"With a retention of {kept} instead of {now} while they move, {saves} less would be "
        "copied "
        f"({topics}{f' and {more} more topics' if more > 0 else ''}); "
        f"what is older is deleted for good."
    ]
    if found.losing:
        lost = _readers(found.losing)
        said.append(f"Not yet: {lost} would lose records that are not read.")
    if found.unsure:
        said.append(f"How far {_readers(found.unsure)} got is not known: look before you do it.")
    if not found.readers_known:
        said.append("Which groups have yet to read it is not known: look before you do it.")
    if found.remote:
        said.append(
            f"Not so: {', '.join(found.remote)} kept in remote storage would be deleted there too; "
            "local.retention.ms shortens only what is copied."
        )
    if found.remote_unknown:
        unknown = ", ".join(found.remote_unknown[:NAMED])
        rest = len(found.remote_unknown) - NAMED
        others = f" and {counted(rest, 'more topic')}" if rest > 0 else ""
        said.append(
            f"Whether {unknown}{others} is kept in remote storage, where it would be deleted too, "
            "is not known."
        )
    if found.forever:
        said.append(f"It would shorten {', '.join(found.forever)} too, meant to keep everything.")
    if found.is_advised:
        said.append("A run lowers it, and puts it back:")
    return said


def shrinking_hint(found: Shrinking | None, total_bytes: int, *, asked: bool) -> str:
    """Return, in a sentence, what a shorter retention saves of what is to be copied.

    "" where that is not worth saying: a tenth at least, unless it was `asked` for.
    """
    most = 0 if found is None else min(found.most_bytes, total_bytes)
    if found is None or not most or (not asked and most < total_bytes * WORTH):
        return ""
    if found.remote or found.remote_unknown:
        return ""
    saved = f"up to {format_bytes(most)} of {format_bytes(total_bytes)}"
    if asked:
        return f"With that, {saved} do not have to be copied."
    return (
        f"With a retention of {option(found.seconds)}, {saved} would not have to be copied: "
        "`trimtab plan impact` says how, and who has yet to read it."
    )


def shrinking_command(found: Shrinking, plan: str) -> str:
    """Return the command that does it, ready to be copied; "" where it is not advised."""
    kept = option(found.seconds)
    return f"trimtab apply {plan} --retention {kept}" if found.is_advised else ""


def _readers(readers: Iterable[Reader]) -> str:
    """Return groups by name, each with how far it is behind where that is known."""
    slowest: dict[str, Reader] = {}
    for reader in sorted(readers, key=lambda r: -(r.behind_seconds or 0.0)):
        slowest.setdefault(reader.group, reader)
    names = [
        r.group
        if r.behind_seconds is None
        else f"{r.group} ({format_duration(r.behind_seconds)} behind on {r.topic})"
        for r in slowest.values()
    ]
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more groups" if more > 0 else "")


def option(seconds: int) -> str:
    """Return seconds as `--retention` takes them: `6h`."""
    return f"{seconds // HOUR}h" if seconds % HOUR == 0 else f"{seconds}s"
