"""Agents and the algorithms that train them: interfaces, registry, recipes, weights with their cards, and replay."""
