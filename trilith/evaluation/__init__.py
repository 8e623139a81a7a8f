"""Evaluation of agents: frozen scene sets, playing episodes, statistics, comparisons and reports."""
