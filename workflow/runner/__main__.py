"""Entry of `python -m runner` and, through a line of its own, of runner.pyz."""

from runner.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
