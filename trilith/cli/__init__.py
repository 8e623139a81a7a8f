"""The command line `trilith`: a thin layer over the other packages, with a file for each group of commands."""

from __future__ import annotations


def start() -> None:
    """Runs the command `trilith`. Modules are imported inside this function, so that Ctrl-C prints no traceback even during the imports."""
    try:
        from trilith.cli.main import main

        main()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    finally:
        # CPython remembers an interrupt during `exec`, and the import of dataclasses uses `exec`. `python -m` then dies of the
        # signal, even if the interrupt was handled. Another `exec` resets this.
        exec("")
