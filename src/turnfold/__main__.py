"""Runs the `turnfold` command for `python -m turnfold`, for systems where the script is not on the PATH."""

from __future__ import annotations

from turnfold.cli import main

if __name__ == "__main__":
    main()
