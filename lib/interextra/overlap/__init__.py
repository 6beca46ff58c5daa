"""Overlap of test queries with training queries: shared passages, and annotated pairs."""
