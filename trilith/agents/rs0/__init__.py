"""RS0: Retrace and stochastic value gradients, for continuous actions."""
