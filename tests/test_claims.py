"""Claims are stated before they are answered."""

import ast
from collections import Counter

import pytest
import yaml

from interextra.papers import verdicts

BY_PAPER = yaml.safe_load(verdicts.FILE.read_text(encoding="utf-8"))
STATED = {name: claim for stated in BY_PAPER.values() for name, claim in stated.items()}


def arithmetic(text):
    """The value of a sum of printed numbers."""
    allowed = ast.Expression, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Constant
    tree = ast.parse(str(text), mode="eval")
    assert all(isinstance(node, allowed) for node in ast.walk(tree)), text
    return eval(compile(tree, "published", "eval"), {"__builtins__": {}})


@pytest.mark.parametrize("name", STATED)
def test_a_claim_is_stated_before_it_is_answered(root, name):
    """Its margin is at most half of what the paper prints, and what is printed follows from the means named."""
    claim = STATED[name]
    fields = {"notebook", "sentence", "asks", "rows", "measure", "margin", "known"}
    assert fields <= claim.keys() <= fields | {"place", "side", "published", "gate", "secondary"}
    assert (root / "notebooks" / f"{claim['notebook']}.ipynb").is_file() and len(claim["sentence"].split()) < 25
    assert claim["asks"] in ("below", "above", "equal") and claim["margin"] > 0
    if isinstance(published := claim.get("published", "none"), dict):
        value = arithmetic(published["from"])
        assert published["value"] == pytest.approx(value, abs=6e-4)
        if claim["asks"] == "equal":
            assert abs(value) <= claim["margin"]
        else:
            assert claim["margin"] <= abs(value) / 2 and (value > 0) == (claim["asks"] == "above")


def test_a_notebook_has_two_to_six_claims_that_get_a_verdict():
    counts = Counter(claim["notebook"] for claim in STATED.values() if not claim.get("secondary"))
    assert len(counts) == 9 and set(counts.values()) <= {2, 3, 4, 5, 6}, counts
