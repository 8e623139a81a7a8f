"""Networks of learned transition models, one file per network."""
