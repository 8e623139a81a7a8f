"""`python -m trilith.cli`: the command `trilith` where it is not installed."""

from trilith.cli.main import main

if __name__ == "__main__":
    main()
