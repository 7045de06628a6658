"""What `trimtab plan suggest` prints, of brokers and log dirs: before and after, moves and why."""

from __future__ import annotations

from typing import Any

from core.cli.plan.estimate import time_range
from core.cluster.access import hidden_topics as hidden
from core.cluster.access.hidden_topics import HiddenTopics
from core.plan.estimate.estimate import Estimate
from core.plan.estimate.estimate_json import format_calibration, format_peak_usage
from core.plan.estimate.plan_over_time import PeakUsage
from core.plan.formats.plan_file import to_document
from core.plan.plan import Plan
from core.plan.planner.broker_log_dirs import DirShare
from core.plan.planner.log_dir_balancing import LogDirPlan
from core.plan.planner.model.measures import SHOWN
from core.plan.planner.plan_request import PlanRequest
from core.plan.planner.plan_result import PlanResult, brokers_reached, explain_no_plan
from core.text.tables import text_table
from core.units import counted, format_bytes, format_duration, format_rate, id_list

ROWS = 15
"""Moves that are printed, those that help most for their bytes first."""


def document(
    suggestion: PlanResult | LogDirPlan,
    estimate: Estimate | None,
    usage: PeakUsage,
    reached: bool,
    hidden_topics: HiddenTopics | None,
) -> dict[str, Any]:
    """Return the document of a suggestion; without brokers' shares of a plan of log dirs alone."""
    notes = _unknown_size_notes if isinstance(suggestion, LogDirPlan) else time_notes
    outlook = {
        **time_document(estimate),
        **format_peak_usage(usage),
        "reached": reached,
        "notes": [*suggestion.notes, *notes(estimate)],
        "hidden_topics": hidden.hidden_topics_to_json(hidden_topics),
    }
    plan = to_document(suggestion.plan)
    if isinstance(suggestion, LogDirPlan):
        return {**dirs_json(suggestion), **outlook, "plan": plan}
    return {
        "moves": suggestion.moves,
        "leader_moves": suggestion.leader_moves,
        "dropped_replicas": suggestion.plan.dropped_replicas,
        "bytes": None if suggestion.unsized else suggestion.bytes,
        "before": _shares_document(suggestion, suggestion.before),
        "after": _shares_document(suggestion, suggestion.after),
        **outlook,
        "reasons": [
            {
                **tp._asdict(),
                "broker": why.broker,
                "measure": why.measure.name.lower(),
                "before": None if why.leaves else round(max(why.before, 0.0), 4),
                "after": None if why.leaves else round(max(why.after, 0.0), 4),
                "leaves": why.leaves,
                "asked": why.requested or None,
            }
            for tp, why in sorted(suggestion.reasons.items())
        ],
        "plan": plan,
        "log_dirs": None if suggestion.dirs is None else dirs_json(suggestion.dirs),
    }


def time_document(estimate: Estimate | None) -> dict[str, Any]:
    if estimate is None:
        keys = ("seconds", "range_seconds", "rate_bytes_per_s", "never", "calibration")
        return dict.fromkeys(keys)
    is_known = estimate.seconds is not None or estimate.never is not None
    return {
        "seconds": estimate.seconds,
        "range_seconds": None if estimate.range_seconds is None else list(estimate.range_seconds),
        "rate_bytes_per_s": estimate.timed_bytes_per_s if is_known else None,
        "never": estimate.never,
        "calibration": format_calibration(estimate),
    }


def _shares_document(suggestion: PlanResult, loads: Any) -> dict[str, Any]:
    return {
        "brokers": [
            {
                "broker": broker,
                **{
                    measure.name.lower(): round(max(float(loads[row, measure]), 0.0), 4)
                    if suggestion.active[measure]
                    else None
                    for measure in SHOWN
                },
            }
            for row, broker in enumerate(suggestion.brokers)
            if suggestion.counts[row]
        ]
    }


def text(
    suggestion: PlanResult | LogDirPlan,
    request: PlanRequest,
    estimate: Estimate | None,
    usage: PeakUsage,
    within: float | None,
) -> str:
    if isinstance(suggestion, LogDirPlan):
        return _log_dirs_text(suggestion, request.band, estimate, usage)
    text = _brokers_text(suggestion, request, estimate, usage, within)
    if suggestion.dirs is None or not suggestion.dirs.plan.moves:
        return text
    if suggestion.reasons:  # it has been said with the brokers
        estimate, usage = None, PeakUsage()
    return f"{text}\n{_changes_text(suggestion.dirs, request.band, estimate, usage)}"


def _brokers_text(
    suggestion: PlanResult,
    request: PlanRequest,
    estimate: Estimate | None,
    usage: PeakUsage,
    within: float | None,
) -> str:
    reached = brokers_reached(suggestion, request)
    lines = [f"{note}\n" for note in suggestion.notes]
    if not suggestion.reasons:
        between = " between brokers" if suggestion.dirs is not None else ""
        return (
            "".join(lines) + explain_no_plan(suggestion, request, between, reached=reached) + "\n"
        )
    if suggestion.counts.any():
        lines += [_measures_text(suggestion), "\n"]
    lines.append(_moves_text(suggestion))
    copies = f"{counted(suggestion.moves, 'partition')} to copy"
    lines.append(
        f"{copies} ({_bytes_text(suggestion)}), {suggestion.leader_moves:,} with another preferred "
        f"leader{dropped_words(suggestion.plan)}{time_text(estimate)}.\n"
    )
    lines += [f"{note}\n" for note in (*usage.sentences, *time_notes(estimate))]
    if estimate is not None and estimate.never:
        lines.append(
            f"{estimate.never}\nGive --within longer, or --max-bytes to plan a part of it.\n"
            if within is not None
            else f"{estimate.never}\n"
        )
    if not reached and not suggestion.incomplete:
        who = "Not every broker that is added" if request.fill else "Not every broker"
        lines.append(
            f"{who} gets within {request.band:.0%} of its share; no better plan was found"
            f"{' within the limits' if request.limits.are_set else ''}.\n"
        )
    return "".join(lines)


def dropped_words(plan: Plan) -> str:
    """Return `, 30 replicas dropped`; "" where none is."""
    count = plan.dropped_replicas
    return f", {counted(count, 'replica')} dropped" if count else ""


def _bytes_text(suggestion: PlanResult) -> str:
    if not suggestion.unsized:
        return format_bytes(suggestion.bytes)
    return (
        f"at least {format_bytes(suggestion.bytes)}"
        if suggestion.bytes
        else "nobody knows how much"
    )


def time_text(estimate: Estimate | None) -> str:
    if estimate is None or estimate.never:
        return ""
    if estimate.seconds is None:
        return "; how long it takes is not known"
    between = estimate.range_seconds is not None
    takes = time_range(estimate) if between else f"at least {format_duration(estimate.seconds)}"
    learned = f", {estimate.calibration.words}" if estimate.calibration is not None else ""
    return f"; {takes} at {format_rate(estimate.timed_bytes_per_s)}{learned}"


def time_notes(estimate: Estimate | None) -> list[str]:
    """Return why a time is not known, or only the least it can be."""
    if estimate is None or not estimate.note or estimate.range_seconds is not None:
        return []
    return [estimate.note]


def _measures_text(suggestion: PlanResult) -> str:
    """Return for each measure the emptiest and the fullest broker, now and then."""
    rows = []
    for measure in SHOWN:
        if not suggestion.active[measure]:
            rows.append((measure.words, "unknown", ""))
            continue
        now, then = (
            loads[suggestion.counts, measure] for loads in (suggestion.before, suggestion.after)
        )
        rows.append(
            (
                measure.words,
                f"{now.min():.0%} … {now.max():.0%}",
                f"{then.min():.0%} … {then.max():.0%}",
            )
        )
    return text_table(("of a fair share", "now", "planned"), rows, right=" >>")


def _moves_text(suggestion: PlanResult) -> str:
    # Leader changes before copies, and first what helps the broker that is furthest off.
    moves = sorted(
        (move for move in suggestion.plan if move.tp in suggestion.reasons),
        key=lambda move: (move.moves_data, -abs(suggestion.reasons[move.tp].before - 1), move.tp),
    )
    rows = [
        (
            str(move.tp),
            id_list(move.before),
            id_list(move.after),
            suggestion.reasons[move.tp].words,
        )
        for move in moves
    ]
    return text_table(("partition", "now", "planned", "for"), rows, limit=ROWS)


# -- of log dirs -----------------------------------------------------------------------------------


def dirs_json(dir_plan: LogDirPlan) -> dict[str, Any]:
    return {
        "moves": dir_plan.moves,
        "bytes": dir_plan.bytes,
        "log_dirs": [
            {
                "broker": share.broker,
                "path": share.path,
                "share_bytes": round(share.share_bytes),
                "before_bytes": share.before_bytes,
                "after_bytes": share.after_bytes,
            }
            for share in dir_plan.dirs
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
            for tp, whys in sorted(dir_plan.reasons.items())
            for why in whys
        ],
    }


def _log_dirs_text(
    dir_plan: LogDirPlan, band: float, estimate: Estimate | None, usage: PeakUsage
) -> str:
    """Return the suggestion as text: log dirs that are or were off, moves, the sum."""
    lines = [f"{note}\n" for note in dir_plan.notes]
    if not dir_plan.plan.moves:
        why = "Nothing to do: log dirs are even." if dir_plan.reached else "No move helps."
        if dir_plan.unknown:
            why = "Whether log dirs are even cannot be said."
        return "".join(lines) + why + "\n"
    lines.append(_changes_text(dir_plan, band, estimate, usage))
    return "".join(lines)


def _changes_text(
    dir_plan: LogDirPlan, band: float, estimate: Estimate | None, usage: PeakUsage
) -> str:
    lines = [_dirs_text(dir_plan.dirs), "\n"]
    if dir_plan.reasons:
        lines.append(_dir_moves_text(dir_plan))
    count = counted(dir_plan.moves, "replica")
    took = time_text(estimate)
    lines.append(f"{count} to copy within their brokers ({format_bytes(dir_plan.bytes)}){took}.\n")
    lines += [f"{note}\n" for note in (*usage.sentences, *_unknown_size_notes(estimate))]
    if estimate is not None and estimate.never:
        lines.append(f"{estimate.never}\n")
    if dir_plan.unknown:
        lines.append("Whether all log dirs get even cannot be said.\n")
    elif not dir_plan.reached:
        lines.append(
            f"Not every log dir gets within {band:.0%} of its share; nothing better was found.\n"
        )
    return "".join(lines)


def _unknown_size_notes(estimate: Estimate | None) -> list[str]:
    """Return what is not known of the copies; nothing of a plan of log dirs tells it otherwise."""
    return [estimate.note] if estimate is not None and estimate.note else []


def _dirs_text(dirs: tuple[DirShare, ...]) -> str:
    shown = sorted(dirs, key=lambda share: (-abs(share.before - 1), share.broker, share.path))
    rows = [
        (
            str(share.broker),
            share.path,
            f"{share.before:.0%}",
            f"{share.after:.0%}",
            format_bytes(share.before_bytes),
            format_bytes(share.after_bytes),
        )
        for share in shown
    ]
    heads = ("broker", "log dir", "now", "planned", "now holds", "will hold")
    return text_table(heads, rows, "> >>>>", ROWS)


def _dir_moves_text(dir_plan: LogDirPlan) -> str:
    whys = [(tp, why) for tp, whys in dir_plan.reasons.items() for why in whys]
    whys.sort(key=lambda pair: (-abs(pair[1].relieved.before - 1), pair[0]))
    rows = [
        (str(tp), str(why.source.broker), why.source.path, why.target.path, why.words)
        for tp, why in whys
    ]
    return text_table(("partition", "broker", "from", "to", "for"), rows, " >", ROWS)
