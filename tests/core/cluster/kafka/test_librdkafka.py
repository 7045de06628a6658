"""librdkafka's clients: destroyed once, not beneath a call, and before the process ends."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from servers import server, silent

from core.cluster.kafka.librdkafka import ClosableClient


class Client:
    """A client whose one call takes until it is let go."""

    def __init__(self) -> None:
        self.destroyed = 0
        self.called, self.let_go = threading.Event(), threading.Event()

    def poll(self) -> str:
        self.called.set()
        self.let_go.wait()
        return "polled"

    def __exit__(self, *_: object) -> None:
        self.destroyed += 1


def test_client_is_destroyed_once_and_not_during_a_call() -> None:
    client = Client()
    handle = ClosableClient(client)
    answers: list[Any] = []
    call = threading.Thread(target=lambda: answers.append(handle.poll()))
    call.start()
    client.called.wait()
    closing = threading.Thread(target=handle.close)
    closing.start()
    closing.join(0.1)
    assert client.destroyed == 0
    client.let_go.set()
    call.join()
    closing.join()
    handle.close()
    assert (answers, client.destroyed) == (["polled"], 1)
    with pytest.raises(KafkaException) as refused:
        handle.poll()
    assert refused.value.args[0].code() == KafkaError._DESTROY


PROGRAM = """
import gc, sys
from core.cluster.kafka import librdkafka as handle
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.kafka.librdkafka import create_admin_client

ended = handle._destroy_client
def told(client):
    ended(client)
    print("destroyed", flush=True)
handle._destroy_client = told
admin = create_admin_client(ConnectionSettings(sys.argv[1], "SSL"))
future = admin.describe_cluster(request_timeout=0.2)
try:
    future.result()
except Exception as error:
    kept = error
    kept.me = (kept, admin)  # a circle, which nobody looks for
gc.freeze()
sys.exit(4)
"""


def test_client_held_by_an_error_is_destroyed_before_the_process_ends() -> None:
    with server(silent) as address:
        ended = subprocess.run(
            [sys.executable, "-P", "-c", PROGRAM, address],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert (ended.returncode, ended.stdout) == (4, "destroyed\n"), ended.stderr
