"""What an engineer does with a retriever of their own: audit, split, regimes, probe."""
