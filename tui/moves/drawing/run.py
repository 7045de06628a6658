"""One run: its headline and bar, its moves, its brokers against their limits, what happened."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC

from core.run.reporting.views import IN_FLIGHT, BrokerProgress, MoveStatus, RunStatus, RunView
from core.run.throttles.inflow import FLOOR_BYTES_PER_S
from core.units import UNLIMITED, format_duration, format_rate, id_list
from tui.drawing.spans import (
    BLANK,
    Line,
    Lines,
    Span,
    Tone,
    bar,
    bright,
    dim,
    left,
    plain,
    right,
    rule,
    wrap_text,
)
from tui.moves.drawing.log import event_lines
from tui.moves.drawing.rows import move_header, move_lines, rate_words, sort_moves
from tui.moves.drawing.status import headline, join_facts, notice_lines, overall, range_words

MEGA = 10**6
_WHY = {
    MoveStatus.FAILED: Tone.ACT,
    MoveStatus.STUCK: Tone.LOOK,
    MoveStatus.CANCELLED: Tone.LOOK,
    MoveStatus.SKIPPED: Tone.LOOK,
}
UNITS = {"B/s": 1, "kB/s": 10**3, "MB/s": MEGA, "GB/s": 10**9, "TB/s": 10**12}


def broker_lines(brokers: Sequence[BrokerProgress], width: int, height: int) -> Lines:
    """Return brokers against their limits; what is left out is counted on the last line."""
    if not brokers:
        return ((dim("  no broker has a part in it yet"),),)
    cut = len(brokers) > height
    lines: list[Line] = [_broker_line(broker, width) for broker in brokers[: height - cut]]
    if cut:
        lines.append((dim(f"  and {len(brokers) - len(lines)} more"),))
    return tuple(lines)


def _broker_line(broker: BrokerProgress, width: int) -> Line:
    track = min(width // 3, 40) if width >= 100 else max(width // 4, 8)
    limit = broker.limit_bytes_per_s
    now = broker.bytes_per_s or 0.0
    unlimited = limit is None or limit == UNLIMITED
    fraction = 0.0 if unlimited or not limit else now / limit
    tone = Tone.LOOK if broker.why and not now else Tone.PLAIN if now else Tone.DIM
    whole = format_rate(now if unlimited else limit)
    unknown = broker.bytes_per_s is None
    rate = "?" if unknown else whole if unlimited else _format_in_unit_of(whole, now)
    against = rate if unlimited else f"{rate} / {whole}"
    why = broker.why or ("no limit" if unlimited else "")
    average = broker.average_bytes_per_s
    average_words = "" if average is None else f"avg {_format_in_unit_of(whole, average)}"
    if limit == FLOOR_BYTES_PER_S:  # nothing can be compared with that
        against, fraction, tone = "held", 0.0, Tone.DIM
        average_words = "" if average is None else f"avg {format_rate(average)}"
        why = broker.why
    room = max(10, len(average_words) + 1)
    return (
        bright(f"  {f'b{broker.broker}':<5}"),
        dim(left(broker.side, 10)),
        *bar(fraction, track),
        Span(right(against, 27 - room), tone),
        dim(right(average_words, room)),
        Span(f"   {why}", Tone.LOOK if tone is Tone.LOOK else Tone.DIM),
    )


def _format_in_unit_of(whole: str, rate: float) -> str:
    """Return a rate as a number in the unit of another one, so that they can be compared."""
    part = rate / UNITS.get(whole.rpartition(" ")[2], MEGA)
    return f"{part:.0f}" if rate == 0 or part >= 9.95 else f"{part:.1f}"


def run_lines(
    run: RunView,
    cursor: int | None,
    width: int,
    height: int,
    marked: Collection[int] = (),
) -> Lines:
    """Return one run's screen in `height` lines; `cursor` is the index of a move."""
    order = sort_moves(run.moves)
    at = order.index(cursor) if cursor in order else 0
    roomy = height >= 30
    gap: Lines = (BLANK,) if roomy else ()
    notices = notice_lines(run, width)
    top: Lines = (headline(run, width), overall(run, width), *notices, *gap, move_header(width))
    ending = ending_lines(run, width, roomy=roomy)
    detail = detail_lines(run, order[at], width, roomy=roomy) if order else ()
    taking_part = not (run.state.ended and not run.brokers)
    room = height - len(top) - len(ending) - len(detail) - 2 * (1 + len(gap)) - len(gap)
    brokers = min(len(run.brokers), max(room // 4, 2))
    events = min(len(run.events), max((room - brokers) // 3, 2))
    shown = min(len(order), max(room - brokers - events, 1))
    events = min(len(run.events), max(room - brokers - shown, 0))
    rows = move_lines(run.moves, order, at, width, shown, marked)
    lines: list[Line] = [*top, *rows, *detail, *gap]
    if taking_part:
        note = "now / limit" if width >= 100 else ""
        lines += [rule("brokers in this run", width, note=note)]
        lines += [*broker_lines(run.brokers, width, brokers), *gap]
    lines += [rule("what happened", width), *event_lines(run.events, width, events), *gap]
    return tuple(lines[: height - len(ending)]) + ending


def detail_lines(run: RunView, index: int, width: int, *, roomy: bool) -> Lines:
    """Return what there is to know of one move beside its row: rates, range, batch, why."""
    move = run.moves[index]
    facts: list[Line] = []
    in_flight = move.state in IN_FLIGHT
    if in_flight and (now := rate_words(move)):
        facts.append((plain(f"now {now}, average {format_rate(move.average_bytes_per_s)}"),))
    if move.left_seconds is not None:
        between = range_words(move.left_range) if move.left_range else ()
        facts.append((bright(f"{format_duration(move.left_seconds)} left"), *between))
    if move.held:
        facts.append((Span("bytes as last known", Tone.LOOK),))
    facts.append((dim(f"batch {move.batch} of {run.batches}"),))
    facts.append((dim(f"{id_list(move.before)} → {id_list(move.after)}"),))
    if move.done_at is not None:
        facts.append((dim(f"at {move.done_at.astimezone(UTC):%H:%M:%S}Z"),))
    why, tone = move.why, _WHY.get(move.state, Tone.DIM)
    if move.state is MoveStatus.STUCK and not why.startswith("stuck"):
        why = f"stuck: {why}"
    if not roomy:
        if why:
            facts.insert(0, (Span(why, tone),))
        return (join_facts(facts, width),)
    reasons = wrap_text(why, width - 6, 2) if why else ()
    lines = ((Span(f"   {part}", tone),) for part in reasons)
    return (BLANK, rule(str(move.tp), width), join_facts(facts, width), *lines)


def ending_lines(run: RunView, width: int, *, roomy: bool) -> Lines:
    """Return what stands below: that the run goes on alone, or what it left behind."""
    lines: list[Line] = [rule("", width)]
    attach = Span(f"trimtab runs attach {run.run}", Tone.YOURS)
    if run.leftovers is not None:
        gone = f"The process of this run (pid {run.pid}) is gone."
        says = gone if run.state is RunStatus.DIED else "This run gave up before all was put back."
        lines.append((Span(f"  {says}", Tone.ACT, True),))
        for text in leftover_words(run):
            lines += [(plain(f"  {part}"),) for part in wrap_text(text, width - 4, 2)]
        show = Span(f"trimtab runs show {run.run}", Tone.YOURS)
        lines.append((dim("  All of it, entry by entry:  "), show))
    elif run.state.ended:
        key = Span("enter", Tone.YOURS, bold=True)
        words = dim("  its report: asked, done, changed and restored; e writes it to a file")
        lines.append((plain("  "), key, words))
        if next_ := followup_keys(run):
            lines.append(next_)
    else:
        process = f" (pid {run.pid})" if run.pid else ""
        alone = f"  The run goes on without this screen{process}. Attach again any time with "
        if len(alone) + len(attach.text) > width:
            alone = "  It goes on without this screen.  "
        lines.append((dim(alone), attach))
        if roomy:
            after = "  Throttles return to what they were, broker by broker, as moves end."
            lines.append((dim(after),))
    return tuple(lines)


def followup_keys(run: RunView) -> Line:
    """Return which keys follow an ended run up, and with how much; nothing where nothing does."""
    line: list[Span] = []
    for key, count, words in (
        ("a", run.undone, "tries {} again"),
        ("R", run.moved_away, "moves {} back"),
    ):
        if count:
            line += [plain("  "), Span(key, Tone.YOURS, bold=True), dim(f"  {words.format(count)}")]
    return (*line, dim(", as another run, after asking")) if line else ()


def leftover_words(run: RunView) -> list[str]:
    """Return in words what a run that died or gave up left in the cluster."""
    left_behind = run.leftovers
    if not left_behind:
        return ["It left nothing: no move in flight, no throttle."]
    words = []
    if left_behind.moves:
        moves_words = ", ".join(str(tp) for tp in left_behind.moves[:4])
        more = f" and {len(left_behind.moves) - 4} more" if len(left_behind.moves) > 4 else ""
        words.append(f"In flight as it died: {moves_words}{more}; Kafka ends them without it.")
    if left_behind.rates:
        rates = ", ".join(
            f"b{r.broker} {r.side.value} {format_rate(r.rate_bytes_per_s)}"
            for r in left_behind.rates[:6]
        )
        words.append(f"Throttle rates still set: {rates}.")
    if left_behind.lists:
        topics = ", ".join(sorted({topic for topic, *_ in left_behind.lists})[:6])
        words.append(f"Throttle lists still hold its entries: {topics}.")
    if left_behind.retention:
        lowered = ", ".join(f"{r.topic} {r.words}" for r in left_behind.retention[:3])
        beyond = len(left_behind.retention) - 3
        rest = f", and {beyond} more" if beyond > 0 else ""
        words.append(f"Retention still lowered: {lowered}{rest}.")
    return words
