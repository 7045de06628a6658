"""Names of Kafka's configs that commands know too: importing them costs no client."""

from __future__ import annotations

from collections.abc import Iterable

MIN_INSYNC = "min.insync.replicas"
REMOTE_STORAGE = ("remote.storage.enable", "confluent.tier.enable", "redpanda.remote.write")
"""Kafka's and others' configs of topics that are kept in remote storage, too."""


def is_remote(values: Iterable[str | None]) -> bool:
    """Return whether a topic is kept in remote storage, by its values of `REMOTE_STORAGE`.

    A cluster that has none of these configs has no remote storage.
    """
    return "true" in values
