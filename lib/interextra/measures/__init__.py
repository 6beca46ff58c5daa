"""Effectiveness of runs, incomplete judgements, and indicators and predictors of losses."""
