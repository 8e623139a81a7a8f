"""Makes `python -m trilith.cli` run the command `trilith`, for machines on which the command is not installed."""

from trilith.cli import start

if __name__ == "__main__":
    start()
