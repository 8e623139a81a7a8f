"""`python -m trilith.cli`: the command `trilith` where it is not installed."""

from trilith.cli import start

if __name__ == "__main__":
    start()
