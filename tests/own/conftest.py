"""The tests of the user's own retriever take no encoder that takes minutes unless they name it."""

import pytest

from interextra.models import encoders


@pytest.fixture(autouse=True)
def without_minilm(monkeypatch):
    """What is taken unasked is TF-IDF, as in an installation of the core."""
    monkeypatch.setattr(encoders, "find_spec", lambda name: None)
