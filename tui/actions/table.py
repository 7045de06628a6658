"""The one table of actions, for footer, help screen, palette and docs/reference/keys.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from textual.binding import Binding, BindingType

from tui.actions.action import KEY_NAMES, Action
from tui.actions.key_bindings import ACTIONS

_WRITTEN = {name: key for key, name in KEY_NAMES.items()}


def written(key: str) -> str:
    """Return a key as people write it (`?` for `question_mark`)."""
    return _WRITTEN.get(key, key)


def keys_of(action: Action, keys: Mapping[str, str]) -> tuple[str, ...]:
    """Return an action's keys, the user's own (`keys` of config.toml) before the table's."""
    own = keys.get(action.binding_id)
    return tuple(own.split(",")) if own else action.keys


def actions_of(place: str, *, drills: bool = True) -> tuple[Action, ...]:
    """Return the actions of one place; without `drills`, none that breaks things on purpose."""
    return tuple(
        action
        for action in ACTIONS
        if place in action.screens and (drills or not action.for_drills)
    )


def bindings_of(*places: str) -> list[BindingType]:
    """Return the Textual bindings of a place, or of several that one screen is."""
    actions = {action.binding_id: action for place in places for action in actions_of(place)}
    return [
        Binding(
            key,
            action.call.replace("{key}", key) if action.call else action.id,
            action.name,
            show=False,
            id=action.binding_id,
            tooltip=action.help,
        )
        for action in actions.values()
        for key in (action.keys if "{key}" in action.call else (",".join(action.keys),))
    ]


def footer_of(places: Iterable[str], *, drills: bool = True) -> tuple[Action, ...]:
    """Return what the footer shows in these places, in order."""
    shown = {
        action.binding_id: action
        for place in places
        for action in actions_of(place, drills=drills)
        if action.footer
    }
    return tuple(sorted(shown.values(), key=lambda action: action.footer))
