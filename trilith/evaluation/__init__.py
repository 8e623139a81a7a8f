"""Evaluation: frozen scenes, playing, measuring, reports."""
