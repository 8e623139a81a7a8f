"""What a network sees, raw."""
