"""`trimtab doctor --acls`: which rights a use of a cluster takes, which are there, and the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from core.cli.common.context import Context
from core.cli.common.every_cluster import ask_every_cluster, sections, write_answers
from core.cli.common.output import Answer
from core.cluster.access.rights import USES, Right, acl_commands
from core.cluster.connect import fetch_rights
from core.errors import ExitCode
from core.text.terminal import printable

MAX_NAMED = 3


@dataclass(frozen=True, slots=True)
class _Rights:
    """What a use of a cluster takes, and on which resources each of it is missing."""

    use: str
    principal: str
    missing_on: Mapping[Right, tuple[str, ...] | None]
    commands: tuple[str, ...]

    @property
    def fine(self) -> bool:
        return not any(self.missing_on.values())

    def to_json(self) -> dict[str, Any]:
        return {
            "use": self.use,
            "principal": self.principal,
            "rights": [
                {
                    "resource": right.resource.name.lower(),
                    "operation": right.operation,
                    "granted": None if missing is None else not missing,
                    "missing_on": [name for name in missing or () if name],
                }
                for right, missing in self.missing_on.items()
            ],
            "commands": list(self.commands),
        }

    @property
    def text(self) -> str:
        return "".join(_right_lines(self.principal, self.missing_on, self.commands))


def show_rights(context: Context, use: str, answer: Answer, *, every: bool) -> int:
    """Print the rights that a use takes, and which are missing; returns the exit code."""
    if every:
        answers = ask_every_cluster(context, lambda ctx: _fetch_rights(ctx, use))
        text = partial(sections, answers, lambda check: check.text)
        return write_answers(answer, answers, _Rights.to_json, text, fine=lambda check: check.fine)
    rights = _fetch_rights(context, use)
    answer.write(rights.to_json, lambda: rights.text)
    return ExitCode.DONE if rights.fine else ExitCode.NO


def _fetch_rights(context: Context, use: str) -> _Rights:
    from core.cluster.observer import find_hidden_topics

    address = context.require_address()
    granted = fetch_rights(address)
    with context.connected() as connection:
        state = connection.client.describe_cluster()
        logs = connection.client.describe_log_dirs(state.alive_ids)
        hidden = find_hidden_topics(connection.client.fetch_denied_topics, state, logs)
    granted = replace(granted, hidden_topics=bool(hidden.count))
    rights = USES[use].rights
    gaps = {right: granted.missing_on(right) for right in rights}
    lacking = [right for right, missing in gaps.items() if missing]
    commands = acl_commands(lacking, granted.principal, address.bootstrap)
    return _Rights(use, granted.principal, gaps, tuple(commands))


def _right_lines(
    principal: str, gaps: Mapping[Right, tuple[str, ...] | None], commands: Sequence[str]
) -> Iterator[str]:
    yield f"{printable(principal)}\n"
    width = max(len(str(right)) for right in gaps)
    for right, missing in gaps.items():
        if missing is None:
            yield f"? {right!s:<{width}}  not known: there is none to ask of\n"
        elif not missing:
            yield f"✓ {right}\n"
        else:
            names = [printable(name) for name in missing if name]
            more = f" and {len(names) - MAX_NAMED:,} more" if len(names) > MAX_NAMED else ""
            on = f" on {', '.join(names[:MAX_NAMED])}{more}" if names else ""
            yield f"✗ {right!s:<{width}}  missing{on}\n"
    if commands:
        yield "\nAllow what is missing, as an administrator:\n\n"
        yield from (f"{command}\n" for command in commands)
