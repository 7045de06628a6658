"""Plans, assignments and clusters of any kind, for laws that hypothesis tries."""

from __future__ import annotations

from clusters import cluster, tp
from hypothesis import strategies as st

from core.plan.plan import ANY, Move, Plan

BROKERS = range(7)
assignments = st.permutations(BROKERS).flatmap(
    lambda order: st.integers(1, 4).map(lambda count: tuple(order[:count]))
)
some_dirs = st.sampled_from([ANY, "/d1", "/d2"])


@st.composite
def moves(draw):
    """Return any move; some name log dirs, and say where they were, as `bind` would."""
    partition = tp(f"{draw(st.sampled_from('ab'))}-{draw(st.integers(0, 5))}")
    before, after = draw(assignments), draw(assignments)
    log_dirs = tuple(draw(some_dirs) for _ in after)
    if all(path == ANY for path in log_dirs) or draw(st.booleans()):
        return Move(partition, before, after)
    named = dict(zip(after, log_dirs, strict=True))
    other = {"/d1": "/d2", "/d2": "/d1", ANY: ANY}
    old_dirs = tuple(other[named.get(b, "/d1")] for b in before)
    return Move(partition, before, after, None, log_dirs, old_dirs)


plans = st.lists(moves(), unique_by=lambda move: move.tp).map(Plan.of)
states = st.dictionaries(
    st.builds(lambda topic, p: f"{topic}-{p}", st.sampled_from("ab"), st.integers(0, 5)),
    assignments,
    min_size=1,
).map(lambda replicas: cluster(replicas, brokers=BROKERS))
