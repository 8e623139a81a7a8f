"""The command line, a shell around the other packages."""

from __future__ import annotations


def start() -> None:
    """The command `trilith`. Its modules are imported here, so that Ctrl-C during the imports is handled as quietly as later."""
    try:
        from trilith.cli.main import main

        main()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    finally:
        # CPython remembers an interrupt inside an executed string, and the import of dataclasses executes strings. `python -m` then ends by
        # the signal, even if the interrupt was handled. Executing another string clears this memory.
        exec("")
