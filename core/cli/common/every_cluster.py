"""`--all`: a command asks every cluster of config.toml at once, and answers for each by name."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

import click

from core import paths
from core.cli.common.context import Context, Target
from core.cli.common.options import refuse_together
from core.cli.common.output import Answer, StatusLine, say
from core.cli.common.prompts import ask_passwords
from core.errors import ExitCode, TrimtabError, UsageError
from core.settings import load_settings

T = TypeVar("T")

all_option = click.option(
    "--all",
    "every",
    is_flag=True,
    help="Ask all clusters of config.toml; the exit code is the highest of all.",
)


@dataclass(frozen=True, slots=True)
class ClusterAnswer(Generic[T]):
    """What one cluster was found to be like, or why it did not say."""

    name: str | None
    """None is this machine."""
    answer: T | None = None
    error: TrimtabError | None = None

    def code(self, fine: Callable[[T], bool]) -> int:
        if self.error is not None:
            return self.error.exit_code
        return ExitCode.DONE if self.answer is None or fine(self.answer) else ExitCode.NO

    def to_json(self, document: Callable[[T], Any], fine: Callable[[T], bool]) -> dict[str, Any]:
        return {
            "cluster_name": self.name,
            "exit_code": int(self.code(fine)),
            "error": None if self.error is None else " ".join(str(self.error).splitlines()),
            "answer": None if self.answer is None else document(self.answer),
        }


def ask_every_cluster(context: Context, ask: Callable[[Context], T]) -> list[ClusterAnswer[T]]:
    """Ask the clusters of config.toml, each in a thread, for as long as each may take.

    Passwords are asked for first, one after the other. Raises UsageError where none has a name, or
    one is meant beside all.
    """
    target = context.target
    flags = {"-b or --cluster": target.named or None, "--from": target.from_file}
    refuse_together({"--all": True, **flags})
    settings = load_settings()
    if not settings.clusters:
        raise UsageError(
            f"{paths.config_file()} names no cluster.", next="`trimtab clusters ls` shows how."
        )
    ended: SimpleQueue[ClusterAnswer[T] | BaseException] = SimpleQueue()

    def work(name: str) -> None:
        try:
            target = Target.of(name, settings, context.target.timeout_seconds)
            result = ask(replace(context, target=target, heading=f"{name}: "))
            ended.put(ClusterAnswer(name, result))
        except TrimtabError as error:
            ended.put(ClusterAnswer(name, error=error))
        except BaseException as error:  # noqa: BLE001 - it is raised where the command runs
            ended.put(error)

    answers: dict[str, ClusterAnswer[T]] = {}
    for name in sorted(settings.clusters):
        try:
            address = Target.of(name, settings).address
            assert address is not None
            ask_passwords(address)
        except TrimtabError as error:
            answers[name] = ClusterAnswer(name, error=error)
    waiting = set(settings.clusters) - set(answers)
    for name in waiting:
        threading.Thread(target=work, args=(name,), name=f"ask {name}", daemon=True).start()
    status = StatusLine()
    while waiting:
        status.say(f"asking {', '.join(sorted(waiting))} …")
        answer = ended.get()
        if isinstance(answer, BaseException):
            raise answer
        assert answer.name is not None
        answers[answer.name] = answer
        waiting.remove(answer.name)
    status.end()
    return [answers[name] for name in sorted(answers)]


def write_answers(
    answer: Answer,
    answers: Sequence[ClusterAnswer[T]],
    document: Callable[[T], Any],
    text: Callable[[], str],
    fine: Callable[[T], bool] = lambda _: True,
) -> int:
    """Write what all have answered, as JSON an entry each; return the highest exit code.

    Of those that have not, `text` knows nothing: they are told of on stderr.
    """
    answer.write(lambda: [reply.to_json(document, fine) for reply in answers], text)
    for cluster_answer in answers:
        if cluster_answer.error is not None:
            say(f"{cluster_answer.name}: {cluster_answer.error}")
    return max(reply.code(fine) for reply in answers)


def sections(answers: Sequence[ClusterAnswer[T]], text: Callable[[T], str]) -> str:
    """Return what each says below its name."""
    results = [
        (answer.name or "this machine", answer.answer)
        for answer in answers
        if answer.answer is not None
    ]
    return "\n".join(f"{name}\n{text(result)}" for name, result in results)
