"""The commands of the command line: each is a dataclass whose fields are its options, and whose `run` calls the library.

Nothing heavy is imported before a command runs, so that `--help` answers at once.
"""
