"""Where a run can be killed, or asked for something, one case after another on the simulator.

`points` are those of a run that nothing befalls; `judged` plays one case and says what is wrong.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chaos.dying import LATE_SECONDS, Ask, Doom, Lives, Stuck, Watch, Where, begin
from chaos.world import (
    BATCH,
    RATE,
    TOPICS,
    Found,
    complaints,
    found,
    shared_cluster,
    sixty_moves,
    unlimited,
)

from core.cluster.simulation.cluster import SimulatedCluster
from core.plan.plan import Plan
from core.run.journal.move_state import Outcome
from core.run.options import RunOptions

HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Case:
    """What befalls one run: a doom for each life but the last, and what is asked of it."""

    dooms: tuple[Doom, ...] = ()
    asks: tuple[Ask, ...] = ()
    around: bool = False
    """Retention is lowered before, and preferred leaders are elected after."""

    def __str__(self) -> str:
        return "; ".join(map(str, (*self.asks, *self.dooms))) or "nothing"


@dataclass(frozen=True, slots=True)
class AuditVerdict:
    """How a case ended and whatever was wrong; `kinds` names the records that its dooms hit."""

    case: Case
    outcome: Outcome | None
    wrong: tuple[str, ...]
    records: int
    calls: int
    poll_count: int


def judged(case: Case, ends: Sequence[Outcome] = (Outcome.DONE,)) -> AuditVerdict:
    """Play one case; whatever is not as it has to be is in `wrong`."""
    cluster = shared_cluster()
    plan, before = sixty_moves(cluster), found(cluster)
    fast: list[str] = []
    rates = [a.payload["rate_bytes_per_s"] for a in case.asks if a.kind == "throttle"]
    rate = max((RATE, *rates))
    clock = Watch(cluster, HOUR, lambda: fast.extend(unlimited(cluster, plan, rate)))
    more = {"retention_ms": 3_600_000, "elect": True} if case.around else {}
    options = RunOptions(RATE, batch_size=BATCH, **more)
    lives = Lives(begin(cluster, plan, options), cluster, clock, case.asks)
    try:
        history = lives.through(case.dooms)
        clock.sleep(2 * LATE_SECONDS)  # what was sent may act yet
        wrong = [*fast[:1], *complaints(cluster, before, history)]
        if history.rollback_requested:
            wrong += _not_back(cluster, before, plan)
        if history.ended not in ends:
            wrong.insert(0, f"it ended as {history.ended}: {history.ended_why}")
    except Stuck:
        history = lives.history()
        wrong = [f"it does not end; it waits for {history.waiting!r}"]
    first = lives.fates[0]
    return AuditVerdict(
        case, history.ended, tuple(wrong), first.records, first.calls, lives.poll_count
    )


def _not_back(cluster: SimulatedCluster, before: Found, plan: Plan) -> Iterator[str]:
    """Yield the partitions that a roll-back has not put back where they were."""
    now = found(cluster).replicas
    for move in plan:
        if now[move.tp] != before.replicas[move.tp]:
            yield f"{move.tp} was rolled back to {now[move.tp]}"


def every_death(quiet: AuditVerdict, where: Where) -> Iterator[Case]:
    """Yield a death at each record or call of a run that nothing befell."""
    count = quiet.records if where.counts_records else quiet.calls
    for at in range(1, count + 1):
        yield Case((Doom(where, at),), around=quiet.case.around)


def repeated_deaths(quiet: AuditVerdict, seed: int, count: int) -> Iterator[Case]:
    """Yield deaths whose next life dies too, early, and the one after that."""
    rng = random.Random(seed)
    for _ in range(count):
        first = Doom(rng.choice((Where.BEFORE, Where.AFTER)), rng.randint(1, quiet.records))
        again = [
            Doom(rng.choice((Where.BEFORE, Where.AFTER, Where.EFFECT)), rng.randint(1, 5))
            for _ in range(rng.randint(1, 3))
        ]
        yield Case((first, *again))


def every_cancel(quiet: AuditVerdict) -> Iterator[Case]:
    """Yield a cancel at each look of a run at its cluster."""
    for look in range(1, quiet.poll_count + 1):
        yield Case(asks=(Ask(look, "cancel"),))


def cancelled_and_killed(quiet: AuditVerdict, seed: int, count: int) -> Iterator[Case]:
    """Yield cancels with deaths at any place before, during and after them."""
    rng = random.Random(seed)
    for _ in range(count):
        dooms = tuple(
            Doom(rng.choice((Where.BEFORE, Where.AFTER)), rng.randint(1, quiet.records // 2))
            for _ in range(rng.randint(1, 3))
        )
        yield Case(dooms, (Ask(rng.randint(1, quiet.poll_count), "cancel"),))


MOVES = 10 * len(TOPICS)


def restless(quiet: AuditVerdict, seed: int, pauses: int = 50) -> Case:
    """Return so many pauses, each with its resume, at random in one run."""
    rng = random.Random(seed)
    asks, look = [], 0
    for _ in range(pauses):
        look += rng.randint(1, quiet.poll_count // pauses)
        asks.append(Ask(look, "pause", {"floor": rng.random() < 0.5}))
        look += rng.randint(1, 12)
        asks.append(Ask(look, "resume"))
    return Case(asks=tuple(asks))


def runs_with_requests(
    quiet: AuditVerdict, seed: int, count: int, *, dying: bool
) -> Iterator[Case]:
    """Yield runs of which all sorts of things are asked, and that die meanwhile if `dying`."""
    rng = random.Random(seed)
    for _ in range(count):
        looks = sorted(rng.randint(1, quiet.poll_count) for _ in range(rng.randint(1, 5)))
        asks = tuple(_ask(rng, look) for look in looks)
        wheres = (Where.BEFORE, Where.AFTER, Where.EFFECT)
        dooms = tuple(
            Doom(rng.choice(wheres), rng.randint(1, 60)) for _ in range(rng.randint(1, 3) * dying)
        )
        yield Case(dooms, asks)


def _ask(rng: random.Random, look: int) -> Ask:
    moves = rng.sample(range(MOVES), rng.randint(1, 5))
    match rng.randrange(6):
        case 0:
            return Ask(look, "throttle", {"rate_bytes_per_s": rng.choice((300_000, 3 * RATE))})
        case 1:
            return Ask(look, "cancel", {"moves": moves})
        case 2:
            return Ask(look, "skip", {"moves": moves})
        case 3:
            return Ask(look, "retry", {"moves": list(range(MOVES))})
        case 4:
            after = rng.sample((1, 2, 3, 4, 5, 6), 2)
            return Ask(look, "retarget", {"move": moves[0], "after": after})
        case _:
            return Ask(look, "rollback")
