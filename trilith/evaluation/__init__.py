"""The yardstick: frozen scenes, playing, measuring, reports."""
