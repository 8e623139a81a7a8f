"""The command line, a shell around the other rooms."""

from trilith.cli.main import main as main
