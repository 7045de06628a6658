"""Text in cells: spans and lines, the widgets that draw them, and what is sent to the terminal."""
