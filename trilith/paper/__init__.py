"""The paper, re-run: its figures as data, the runs they need, the ledger of what was measured, and the report."""
