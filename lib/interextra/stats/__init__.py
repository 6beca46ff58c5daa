"""Statistics of the kit: bootstrap, effects, tests and correlations."""
