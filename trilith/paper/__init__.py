"""The repetition of the paper's experiments: the paper's figures as data, the plan of the runs that they need, the ledger of measurements,
and the report."""
