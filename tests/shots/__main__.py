"""The pictures in screenshots/: `python -m shots DIR` makes them, with `--check` compares them."""

from __future__ import annotations

import sys

from shots.drawing import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
