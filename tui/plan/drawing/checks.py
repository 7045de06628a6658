"""Findings of a plan's checks and the planner's notes, in few lines."""

from __future__ import annotations

from collections.abc import Sequence

from core.plan.checks.catalogue import Finding, Severity
from core.units import counted
from tui.drawing.spans import Line, Lines, Span, Tone, dim, fit, left, plain, wrap_text

_SEVERITY = {
    Severity.ILLEGAL: ("✗", Tone.ACT),
    Severity.UNSAFE: ("▲", Tone.LOOK),
    Severity.UNWISE: ("·", Tone.DIM),
}
_MAX_LINES = 3
"""So many lines for one finding: the others are to be seen, too."""


def check_lines(
    notes: Sequence[str], findings: Sequence[Finding], width: int, height: int
) -> Lines:
    """Return notes and then findings in at most `height` lines; findings have one at least."""
    if not notes:
        return finding_lines(findings, width, height)
    shown = note_lines(notes, width, max(height - 1, 1) if findings else height)
    return (*shown, *(finding_lines(findings, width, height - len(shown)) if findings else ()))


def note_lines(notes: Sequence[str], width: int, height: int) -> Lines:
    """Return notes in at most `height` lines; the last counts those left out."""
    blocks: list[list[Line]] = [
        [
            (Span("  " if at else "▲ ", Tone.LOOK), plain(part))
            for at, part in enumerate(wrap_text(note, width - 2, height))
        ]
        for note in notes
    ]
    return _fit_blocks(blocks, width, height, "note")


def finding_lines(findings: Sequence[Finding], width: int, height: int) -> Lines:
    """Return findings worst first, at most `height` lines; the last counts those left out."""
    if not findings:
        return ((Span("√", Tone.FINE), plain(" nothing speaks against it")),)
    max_lines = min(_MAX_LINES, height)
    return _fit_blocks(
        [_block(finding, width, max_lines) for finding in findings], width, height, "finding"
    )


def _block(finding: Finding, width: int, max_lines: int) -> list[Line]:
    mark, tone = _SEVERITY[finding.severity]
    serious = finding.severity > Severity.UNWISE
    shown = Tone.PLAIN if serious else Tone.DIM
    texts = wrap_text(finding.sentence, width - 2 - len(finding.id) - 2, max_lines)
    first = (
        Span(f"{mark} ", tone, bold=serious),
        Span(left(finding.id, len(finding.id)), tone),
        plain("  "),
        Span(texts[0], shown),
    )
    indent = plain(" " * (len(finding.id) + 4))
    return [first, *((indent, Span(text, shown)) for text in texts[1:])]


def _fit_blocks(blocks: Sequence[list[Line]], width: int, height: int, what: str) -> Lines:
    """Return whole blocks, the worst first, and a line that counts the others.

    The first is there in any case, cut if it must be: a count alone says nothing.
    """
    lines: list[Line] = []
    for at, block in enumerate(blocks):
        left_out = len(blocks) - at
        room = height - len(lines)
        if at and (len(block) > room or (len(block) == room and left_out > 1)):
            lines.append((dim(f"  and {counted(left_out, f'more {what}')}"),))
            break
        lines += block
        if not at and len(blocks) > 1 and len(lines) >= height:
            more = f" and {counted(len(blocks) - 1, f'more {what}')}"
            lines[height - 1 :] = [(*fit(lines[height - 1], width - len(more)), dim(more))]
            break
    return tuple(lines[:height])
