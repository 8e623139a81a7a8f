"""The command line, a shell around the other rooms."""
