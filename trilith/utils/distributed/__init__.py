"""Processes and machines that share work."""
