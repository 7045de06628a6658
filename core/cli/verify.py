"""`trimtab verify PLAN`: is the cluster as the plan says? Exit 6 when it is not."""

from __future__ import annotations

from pathlib import Path

import click

from core.cli.context import Context, emit, json_option, output_option, write_text
from core.cli.plan_file import document_of, plan_argument
from core.errors import ExitCode
from core.plan.reassignment import refuse_other_cluster
from core.plan.verify import Standing
from core.plan.verify import verify as verify_targets


@click.command()
@plan_argument
@json_option
@output_option
@click.pass_obj
def verify(context: Context, plan_file: Path, as_json: bool, output: Path | None) -> int:
    """Say whether every partition of a plan has the replicas it should have, in order, in sync.

    Nothing is changed: unlike Kafka's own --verify it removes no throttle.
    """
    document = document_of(context, plan_file)
    context.require_target()
    if context.target.from_file is not None:
        state, _ = context.picture()
    else:
        with context.connected() as connection:
            state = connection.client.describe()
    refuse_other_cluster(document, state)
    found = verify_targets(state, document.targets)
    open_ones = [v for v in found if v.standing is not Standing.DONE]
    if as_json:
        emit(
            {
                "verified": not open_ones,
                "partitions": [
                    {
                        "topic": v.tp.topic,
                        "partition": v.tp.partition,
                        "standing": v.standing.value,
                        "expected": list(v.expected),
                        "replicas": list(v.replicas),
                        "isr": list(v.isr),
                    }
                    for v in found
                ],
            },
            output,
        )
    else:
        count = f"{len(found)} {'partition' if len(found) == 1 else 'partitions'}"
        end = f"{len(open_ones)} of {count} not as planned.\n" if open_ones else (
            f"{count} as planned, all in sync.\n"
        )  # fmt: skip
        write_text("".join(f"{v.sentence}\n" for v in open_ones) + end, output)
    return ExitCode.NO if open_ones else ExitCode.DONE
