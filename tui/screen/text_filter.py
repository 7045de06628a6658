"""The text of a filter: how keys and pastes edit it, and which names match. Pure."""

from __future__ import annotations


def type_filter(words: str, key: str, character: str | None) -> tuple[str, bool] | None:
    """Return the filter after a key and whether it goes on being typed; None for other keys."""
    match key:
        case "enter":
            return words, False
        case "escape":
            return "", False
        case _ if key.startswith("alt+"):
            # Esc and another key, which a slow line delivered in one piece.
            return "", False
        case "backspace":
            return words[:-1], True
        case _ if character is not None and character.isprintable():
            return words + character, True
    return None


def pasted(text: str) -> str:
    """Return what a paste types: the first line that says something, without controls."""
    line = next((line for line in text.splitlines() if line.strip()), "")
    return "".join(c for c in line if c.isprintable()).strip()


def matches(name: str, words: str) -> bool:
    """Return whether every word is in a name, and none that begins with !; case does not matter."""
    name = name.lower()
    for word in words.lower().split():
        if word.startswith("!"):
            if len(word) > 1 and word[1:] in name:
                return False
        elif word not in name:
            return False
    return True
