"""Collections, queries, relevance judgements and runs, and how their files are read."""
