"""Search: rankings of trained models, of BM25, of indexes over vectors, and of several fused."""
