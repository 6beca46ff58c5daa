"""The published tables of the three papers, and what their authors released."""
