"""A plan's impact: in one line for the Plan screen, and as a page of its own."""

from __future__ import annotations

from collections.abc import Sequence

from core.plan.impact.clients import (
    GroupImpact,
    Impact,
    TopicImpact,
    groups_sentence,
    headroom_sentences,
    impact_summary,
    to_read_words,
)
from core.plan.impact.retention import retention_command, retention_sentences
from core.units import counted, format_duration, format_rate
from tui.drawing.spans import (
    BLANK,
    Line,
    Lines,
    Span,
    Tone,
    bright,
    dim,
    left,
    plain,
    right,
    rule,
    shorten,
    width_of,
    wrap_text,
)

NUMBERS = (6, 8, 13, 10, 15)
"""Columns of a group's numbers: partitions, new leaders, lag, behind, then to read."""


def impact_line(impact: Impact, width: int) -> Line:
    """Return the worst in a line, as much of it as fits, and the key that shows all."""
    key = dim(" · i")
    spans: list[Span] = []
    for words in impact_summary(impact):
        tone = Tone.LOOK if impact.headroom and not spans else Tone.PLAIN
        more = (dim(" · "),) if spans else ()
        if width_of((*spans, *more)) + len(words) + width_of((key,)) + 8 > width:
            break
        spans += (*more, Span(words, tone))
    if not spans:
        spans = [dim("nobody is known to read or write it")]
    return (dim("  hits  "), *spans, key)


def impact_lines(impact: Impact, width: int) -> Lines:
    """Return all that is known of who notices a plan, in as many lines as it takes."""
    lines: list[Line] = [
        (
            plain(" "),
            dim("impact  "),
            bright(counted(impact.moves, "partition")),
            dim(f" · {impact.copied:,} copied · {impact.leader_changes:,} with another leader"),
        ),
        BLANK,
        *_headroom(impact, width),
        rule("groups that read them", width),
        *((dim("  "), dim(part)) for part in wrap_text(groups_sentence(impact), width - 4) if part),
        *_groups(impact.groups or (), width),
        BLANK,
        rule("topics that are written to", width),
        *_topics(impact.topics, width),
    ]
    shrunk = impact.shrinking
    if shrunk is not None:
        lines += [BLANK, rule("retention to shrink first", width)]
        lines += _wrap_sentence(" ".join(retention_sentences(shrunk)), width)
        command = retention_command(shrunk, "PLAN")
        lines += [(plain("    "), Span(command, Tone.YOURS))] if command else []
    return tuple(lines)


def _headroom(impact: Impact, width: int) -> Lines:
    sentences = headroom_sentences(impact.headroom)
    if impact.headroom_unknown:
        sentences.append(f"It is not known of {counted(impact.headroom_unknown, 'partition')}.")
    if not sentences:
        return ()
    lines = [line for sentence in sentences for line in _wrap_sentence(sentence, width)]
    return (rule("replicas to spare for acks=all", width), *lines, BLANK)


def _wrap_sentence(sentence: str, width: int) -> list[Line]:
    return [(plain("  "), plain(part)) for part in wrap_text(sentence, width - 4)]


def _groups(groups: Sequence[GroupImpact], width: int) -> Lines:
    if not groups:
        return ()
    name = max(width - sum(NUMBERS) - 2 - 10, 8)
    heads = ("parts", "leaders", "lag", "behind", "then to read")
    rows: list[Line] = [(dim("  " + left("group", name) + left("", 10) + _numbers(heads)),)]
    for group in groups:
        behind = group.behind_seconds
        cells = (
            str(len(group.partitions)),
            str(group.leader_changes),
            "?" if group.lag is None else f"{group.lag:,}",
            "?" if behind is None else format_duration(behind),
            to_read_words(group),
        )
        id = bright(left(shorten(group.id, name), name))
        rows.append((plain("  "), id, dim(left(group.state, 10)), plain(_numbers(cells))))
    return tuple(rows)


def _numbers(cells: Sequence[str]) -> str:
    return "".join(right(cell, room) for cell, room in zip(cells, NUMBERS, strict=True))


def _topics(topics: Sequence[TopicImpact], width: int) -> Lines:
    if not topics:
        return ((dim("  Nothing is written to any of them."),),)
    name = max(width - 2 - 33, 8)
    heads = right("at", 11) + right("leaders", 11) + right("copied", 11)
    rows: list[Line] = [(dim("  " + left("topic", name) + heads),)]
    for topic in topics:
        numbers = (
            right(format_rate(topic.in_bytes_per_s), 11)
            + right(str(topic.leader_changes), 11)
            + right(str(topic.copied), 11)
        )
        rows.append((plain("  "), bright(left(shorten(topic.topic, name), name)), plain(numbers)))
    return tuple(rows)
