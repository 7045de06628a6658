"""What config.toml says, whenever it is asked, of what a cluster's brokers can carry."""

from __future__ import annotations

from core.auto.switch import Switch
from core.cluster.capacity import Capacity, configured_capacity
from core.errors import UsageError
from core.settings import load_settings


class Capacities:
    """Of one cluster; as they were known last where the file cannot be read just now."""

    def __init__(self, switch: Switch) -> None:
        self._name, self._bootstrap = switch.name, switch.address.bootstrap
        self._known = switch.address.capacity

    def read(self) -> Capacity:
        try:
            settings = load_settings()
        except UsageError:  # it is being written, or wrong: whoever runs a command is told
            return self._known
        self._known = configured_capacity(settings, self._name, self._bootstrap)
        return self._known
