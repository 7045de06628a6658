"""Another destination for one move of a run: brokers to choose from, illegal ones said why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from textual.widgets import Label

from core.cluster.state import ClusterState
from core.load.load import Load
from core.plan.checks.brokers import find_skipped
from core.plan.checks.catalogue import OWN_RUN_CHECKS, Severity, has_unknowns
from core.plan.checks.check_plan import check_plan
from core.plan.plan import Move, Plan
from core.run.reporting.views import MoveProgress, MoveStatus, RunView
from core.units import format_bytes
from tui.drawing.spans import (
    Line,
    Lines,
    Span,
    Tone,
    bright,
    dim,
    highlight_line,
    left,
    window,
    wrap_text,
)
from tui.moves.drawing.status import accepts_requests
from tui.moves.questions import RunTableDialog, moves_words
from tui.plan.assessment import Picture, is_similar
from tui.session import Session

ROWS = 10
REST_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Choice:
    """One broker the moves might go to: why not, or the checks that choosing it allows."""

    broker: int
    rack: str | None
    after: tuple[int, ...]
    refused: str = ""
    doubt: str = ""
    allow: frozenset[str] = frozenset()
    unknown: bool = False
    """Whether something is not known that would speak against it, or for it."""


def choices_of(
    state: ClusterState, load: Load, move: MoveProgress, replaced: int
) -> tuple[Choice, ...]:
    """Return all brokers as targets in place of `instead_of`, the legal ones first."""
    choices = []
    for broker in state.brokers:
        after = with_replaced(move, replaced, broker.id)
        refused, doubt, allow, unknown = "", "", set(), False
        if broker.id == replaced:
            refused = "it goes there already"
        elif broker.id in move.after:
            refused = "holds a replica already"
        elif broker.id in move.before:
            refused = "comes from there: cancel it instead"
        elif not broker.alive:
            refused = "is down"
        else:
            plan = Plan(state.cluster_id, (Move(move.tp, move.before, after),))
            findings = [f for f in check_plan(state, load, plan) if f.id not in OWN_RUN_CHECKS]
            unknown = has_unknowns(findings) or "disk" in find_skipped(state, plan.moves)
            for finding in findings:
                if finding.severity is Severity.ILLEGAL:
                    refused = finding.sentence
                elif finding.severity is Severity.UNSAFE:
                    doubt = doubt or finding.sentence
                    allow.add(finding.id)
        choices.append(
            Choice(broker.id, broker.rack, after, refused, doubt, frozenset(allow), unknown)
        )
    return _sort_legal_first(choices)


def with_replaced(move: MoveProgress, old: int, new: int) -> tuple[int, ...]:
    """Return the replicas that a move is to have with one destination in another's place."""
    return tuple(new if broker == old else broker for broker in move.after)


def replaceable_broker(state: ClusterState, move: MoveProgress) -> int | None:
    """Return which destination another one would stand in for: one that is down before others."""
    alive = {broker.id for broker in state.brokers if broker.alive}
    adding = [b for b in move.after if b not in move.before]
    return next((b for b in adding if b not in alive), adding[0] if adding else None)


@dataclass(frozen=True, slots=True)
class Targets:
    """Moves that are to go elsewhere together, by their index, and which brokers may take all."""

    moves: Mapping[int, MoveProgress]
    replaced: Mapping[int, int]
    choices: tuple[Choice, ...]

    def request(self, index: int, broker: int) -> dict[str, Any]:
        """Return what a run is asked for so that a move has `broker` as its destination."""
        after = with_replaced(self.moves[index], self.replaced[index], broker)
        allow = next(choice.allow for choice in self.choices if choice.broker == broker)
        payload = {"move": index, "after": list(after)}
        return payload | {"allow": sorted(allow)} if allow else payload


def targets_of(state: ClusterState, load: Load, moves: Mapping[int, MoveProgress]) -> Targets:
    """Return where these moves may go; those that only change their order are left out.

    A broker that may not take one of them takes none, and says which.
    """
    candidates = {index: (move, replaceable_broker(state, move)) for index, move in moves.items()}
    going = {index: (move, old) for index, (move, old) in candidates.items() if old is not None}
    worst: dict[int, Choice] = {}
    for move, old in going.values():
        for choice in choices_of(state, load, move, old):
            known = worst.get(choice.broker)
            if len(going) > 1:
                choice = replace(
                    choice,
                    refused=choice.refused and f"{move.tp}: {choice.refused}",
                    doubt=choice.doubt and f"{move.tp}: {choice.doubt}",
                )
            allow = choice.allow | (known.allow if known else frozenset())
            unknown = choice.unknown or bool(known and known.unknown)
            if known and (known.refused or (known.doubt and not choice.refused)):
                choice = known
            worst[choice.broker] = replace(choice, allow=allow, unknown=unknown)
    return Targets(
        {index: move for index, (move, _) in going.items()},
        {index: old for index, (_, old) in going.items()},
        _sort_legal_first(worst.values()),
    )


def _sort_legal_first(choices: Iterable[Choice]) -> tuple[Choice, ...]:
    return tuple(sorted(choices, key=lambda c: (bool(c.refused), bool(c.doubt), c.broker)))


class RetargetDialog(RunTableDialog[int, Targets]):
    """Returns the broker that the moves are to go to instead."""

    UNKNOWN = "Where it may go now"

    def __init__(self, run: str, targets: Targets, picture: Picture) -> None:
        super().__init__("Retarget", rest_seconds=REST_SECONDS)
        self._run = run
        self._newest = run
        """Which run was the newest as it was opened: an older one that died may be asked, too."""
        self._picture: Picture | None = picture
        """What was last asked to be assessed."""
        self._at = 0
        self._gone = ""
        """Why what was chosen cannot be any more, until another is."""
        self._over = ""
        """Why there is nothing left to choose for."""
        self._set_targets(targets)

    def on_mount(self) -> None:
        newest = self.dashboard.session.run
        self._newest = self._run if newest is None else newest.run

    def _set_targets(self, targets: Targets) -> None:
        self.targets, self._choices = targets, targets.choices
        self._legal = sum(not choice.refused for choice in self._choices)

    def follow(self, session: Session) -> None:
        """Go with the cluster and the run: where the moves may go, and whether they still go."""
        state, load, run = session.state, session.load, session.run
        self._read_only = session.read_only_words
        moves = {} if run is None or self._over else self._left(run)
        self.draw()
        if state is None or load is None or not moves:
            return
        plan = Plan(state.cluster_id, tuple(move.as_move() for move in moves.values()))
        if self._picture is not None and is_similar(self._picture, (state, load), plan):
            return

        if self._assessing.ask(Plan(), 0, lambda go_on: targets_of(state, load, moves)):
            self._picture = state, load

    def _left(self, run: RunView) -> Mapping[int, MoveProgress]:
        """Return the moves that the newest run has not done; where none is left, say so."""
        if run.run != self._run:
            if run.run != self._newest:
                self._over = f"Run {run.run} has begun meanwhile: this one goes on no more."
            return {}
        if not accepts_requests(run):
            self._over = "The run has ended meanwhile."
            return {}
        known = {index: run.moves[index] for index in self.targets.moves}
        left = {index: move for index, move in known.items() if move.state is not MoveStatus.DONE}
        if not left:
            have = "The move has" if len(known) == 1 else "All of these moves have"
            self._over = f"{have} ended meanwhile."
        elif len(left) < len(known):
            self.targets, self._picture = replace(self.targets, moves=left), None
            self.query_one(".title", Label).update(self._title)
        return left

    def take(self, targets: Targets) -> None:
        """Keep the broker that was chosen; where it may not be any more, none is."""
        self._failed = ""
        before = self._choices[self._at] if self._legal else None
        meant = {i: move for i, move in targets.moves.items() if i in self.targets.moves}
        self._set_targets(replace(targets, moves=meant))
        if before is not None and not self._gone:
            choices = {choice.broker: choice for choice in self._choices}
            now = choices.get(before.broker)
            self._at = 0 if now is None or now.refused else self._choices.index(now)
            if now is None:
                self._gone = f"Broker {before.broker} is not there any more."
            elif now.refused:
                self._gone = f"Broker {now.broker} may not take it any more: {now.refused}."
            elif now.allow - before.allow:
                self._gone = f"Of broker {now.broker} is new: {now.doubt}"
        self.draw()

    @property
    def _problem(self) -> str:
        """Return why what is chosen may not be taken; "" where it may."""
        return self._over or self._read_only or self._failed or self._gone

    @property
    def _title(self) -> str:
        targets = self.targets
        old = ", ".join(f"b{b}" for b in sorted({targets.replaced[i] for i in targets.moves}))
        what = moves_words(list(targets.moves.values()))
        return f"Another destination for {what}, instead of {old}"

    @property
    def chosen(self) -> int | None:
        return self._choices[self._at].broker if self._legal and not self._problem else None

    def table(self, width: int) -> Lines:
        moves = self.targets.moves.values()
        lost = format_bytes(sum(move.moved_bytes for move in moves))
        lines: list[Line] = []
        rows = min(ROWS, max(self.size.height - 13, 3))
        for i in window(len(self._choices), rows, self._at):
            lines.append(self._line(self._choices[i], i == self._at and self._legal > 0, width))
        if not self._legal:
            what = "it" if len(moves) == 1 else "all of them: mark fewer"
            lines += [(), (Span(f"No other broker may take {what}.", Tone.LOOK),)]
        for part in wrap_text(self._problem, width) if self._problem else ():
            lines.append((Span(part, Tone.LOOK),))
        taken = "It is" if len(moves) == 1 else "They are"
        words = f"{taken} taken back, then moved there: {lost} that were copied are dropped."
        return (*lines, (), *((dim(part),) for part in wrap_text(words, width)))

    def _line(self, choice: Choice, chosen: bool, width: int) -> Line:
        name = left(f"b{choice.broker}", 7)
        rack = dim(left(f"rack {choice.rack}" if choice.rack else "", 14))
        if choice.refused:
            return (dim(f"  {name}"), rack, dim(f"✗ {choice.refused}"))
        fine = Span("? not all is known", Tone.DIM) if choice.unknown else Span("√", Tone.FINE)
        doubt = Span(f"▲ {choice.doubt}", Tone.LOOK) if choice.doubt else fine
        mark = Span("▸ " if chosen else "  ", Tone.YOURS, bold=True)
        line: Line = (mark, bright(name) if chosen else Span(name), rack, doubt)
        return highlight_line(line, width) if chosen else line

    def step(self, rows: int) -> None:
        self._gone = ""
        self._at = min(max(self._at + rows, 0), max(self._legal - 1, 0))
        self.draw()
