"""Names of Kafka's configs that commands know too: importing them costs no client."""

from __future__ import annotations

MIN_INSYNC = "min.insync.replicas"
