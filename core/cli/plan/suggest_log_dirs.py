"""What `trimtab plan suggest --disks` prints of log dirs: before and after, why replicas move."""

from __future__ import annotations

from typing import Any

from core.cli.plan.suggest_output import time_document, time_text
from core.cluster import hidden_topics as hidden
from core.cluster.hidden_topics import HiddenTopics
from core.plan.estimate.estimate import Estimate
from core.plan.estimate.estimate_json import format_peak_usage
from core.plan.estimate.peak_usage import PeakUsage
from core.plan.formats.plan_file import to_document
from core.plan.planner.broker_log_dirs import DirShare
from core.plan.planner.log_dir_balancing import LogDirPlan
from core.plan.planner.plan_result import PlanResult
from core.text.tables import text_table
from core.units import counted, format_bytes

ROWS = 15


def document(
    found: LogDirPlan,
    estimate: Estimate | None,
    usage: PeakUsage,
    hidden_topics: HiddenTopics | None,
) -> dict[str, Any]:
    """Return the document of `plan suggest --disks --json`."""
    return {
        **dirs_document(found),
        **time_document(estimate),
        **format_peak_usage(usage),
        "reached": found.reached,
        "notes": [*found.notes, *_notes(estimate)],
        "hidden_topics": hidden.hidden_topics_to_json(hidden_topics),
        "plan": to_document(found.plan),
    }


def dirs_document(found: LogDirPlan) -> dict[str, Any]:
    """Return what is copied between log dirs, why, and what each of them holds before and after."""
    return {
        "moves": found.moves,
        "bytes": found.bytes,
        "log_dirs": [
            {
                "broker": one.broker,
                "path": one.path,
                "share_bytes": round(one.share_bytes),
                "before_bytes": one.before_bytes,
                "after_bytes": one.after_bytes,
            }
            for one in found.dirs
        ],
        "reasons": [
            {
                **tp._asdict(),
                "broker": why.source.broker,
                "from": why.source.path,
                "to": why.target.path,
                "relieves": why.relieved.path,
                "before": round(why.relieved.before, 4),
                "after": round(why.relieved.after, 4),
            }
            for tp, whys in sorted(found.reasons.items())
            for why in whys
        ],
    }


def totals_text(found: PlanResult, band: float, estimate: Estimate | None, usage: PeakUsage) -> str:
    """Return what is said of log dirs below what is said of brokers; "" where nothing changes."""
    dirs = found.dirs
    if dirs is None or not dirs.plan.moves:
        return ""
    if found.reasons:  # it has been said with the brokers
        estimate, usage = None, PeakUsage()
    return f"\n{_changes_text(dirs, band, estimate, usage)}"


def text(found: LogDirPlan, band: float, estimate: Estimate | None, usage: PeakUsage) -> str:
    """Return the suggestion as text: log dirs that are or were off, moves, the sum."""
    lines = [f"{note}\n" for note in found.notes]
    if not found.plan.moves:
        why = "Nothing to do: log dirs are even." if found.reached else "No move helps."
        if found.unknown:
            why = "Whether log dirs are even cannot be said."
        return "".join(lines) + why + "\n"
    lines.append(_changes_text(found, band, estimate, usage))
    return "".join(lines)


def _changes_text(
    found: LogDirPlan, band: float, estimate: Estimate | None, usage: PeakUsage
) -> str:
    lines = [_dirs_text(found.dirs), "\n"]
    if found.reasons:
        lines.append(_moves_text(found))
    count = counted(found.moves, "replica")
    took = time_text(estimate)
    lines.append(f"{count} to copy within their brokers ({format_bytes(found.bytes)}){took}.\n")
    lines += [f"{note}\n" for note in (*usage.sentences, *_notes(estimate))]
    if estimate is not None and estimate.never:
        lines.append(f"{estimate.never}\n")
    if found.unknown:
        lines.append("Whether all log dirs get even cannot be said.\n")
    elif not found.reached:
        lines.append(
            f"Not every log dir gets within {band:.0%} of its share; nothing better was found.\n"
        )
    return "".join(lines)


def _notes(estimate: Estimate | None) -> list[str]:
    """Return what is not known of the copies; nothing of a plan of log dirs tells it otherwise."""
    return [estimate.note] if estimate is not None and estimate.note else []


def _dirs_text(dirs: tuple[DirShare, ...]) -> str:
    shown = sorted(dirs, key=lambda one: (-abs(one.before - 1), one.broker, one.path))
    rows = [
        (
            str(one.broker),
            one.path,
            f"{one.before:.0%}",
            f"{one.after:.0%}",
            format_bytes(one.before_bytes),
            format_bytes(one.after_bytes),
        )
        for one in shown
    ]
    heads = ("broker", "log dir", "now", "planned", "now holds", "will hold")
    return text_table(heads, rows, "> >>>>", ROWS)


def _moves_text(found: LogDirPlan) -> str:
    whys = [(tp, why) for tp, whys in found.reasons.items() for why in whys]
    whys.sort(key=lambda one: (-abs(one[1].relieved.before - 1), one[0]))
    rows = [
        (str(tp), str(why.source.broker), why.source.path, why.target.path, why.words)
        for tp, why in whys
    ]
    return text_table(("partition", "broker", "from", "to", "for"), rows, " >", ROWS)
