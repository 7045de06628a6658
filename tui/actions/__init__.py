"""What the user can do: one table, for footer, help, palette and docs/reference/keys.md."""
