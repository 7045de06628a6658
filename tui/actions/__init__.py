"""What the user can do: one table, from which footer, help, palette and docs/keys.md come."""
