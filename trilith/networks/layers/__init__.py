"""Parts that several networks share."""
