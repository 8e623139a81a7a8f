"""The paper, re-run: its figures as data, the plan of runs that they need, the ledger of measurements, and the report."""
