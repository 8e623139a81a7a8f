"""The command line, a shell around the other rooms."""

from __future__ import annotations


def start() -> None:
    """The command `trilith`. Its modules are imported here, so that Ctrl-C while they are is as quiet as later."""
    try:
        from trilith.cli.main import main

        main()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    finally:
        # CPython notes an interrupt inside a string that is executed, as those of dataclasses are while they are imported, and `python -m`
        # then ends by the signal whatever was made of it. Executing another string makes it forget.
        exec("")
