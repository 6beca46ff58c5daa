"""How many queries a split needs: to train on, to measure, and to show a lead."""

import sys
from collections.abc import Mapping, Sequence

from interextra.stats.tests import LEAST_QUERIES, detectable
from interextra.store import InputError

LEAST_MEASURING = LEAST_QUERIES  # queries that measure, or show the lead: fewer decide nothing
LEAST_TRAINING = 10  # training queries of a set: from fewer, a model learns nothing to compare
# Training queries of a set: from fewer, an epoch is at most six batches of 32, and a model that
# hardly moves hardly differs between its regimes.
FEW_TRAINING = 200
# Queries that measure, or show the lead, are few where the smallest change that they find is above
# this share of the mean: published losses of dense retrievers are of 9 % and more, and a retriever
# that is worth its training leads by a third.
FINDS_CHANGE = 0.2
FINDS_LEAD = 1 / 3
# Standard deviation over queries as a share of the mean: of BM25 on MedQuAD and in the generated
# worlds it is .54 to .67 of nDCG@10, .63 to .92 of RR@10.
SPREAD = 0.7


def refuse_too_few(training_ids: Mapping[str, Sequence[str]], n_test: int, n_gate: int) -> None:
    """Refuse too few queries to train on, to measure, or to show a lead.

    Parameters
    ----------
    training_ids : query_ids of each training set.
    n_test, n_gate : queries that measure, and that show the lead.
    """
    name, n_train = _smallest_set(training_ids)
    if n_train < LEAST_TRAINING:
        raise InputError(
            f"the set {name} has {n_train} training queries, of which at least {LEAST_TRAINING} "
            "are needed: give a larger --size, or name larger --clusters"
        )
    if min(n_test, n_gate) < LEAST_MEASURING:
        raise InputError(
            f"{n_test} queries would measure and {n_gate} show the lead, of which at least "
            f"{LEAST_MEASURING} are needed: name more --test-splits, a --gate-split, or of a shift "
            "a larger --n-test"
        )


def report_few(training_ids: Mapping[str, Sequence[str]], n_test: int, n_gate: int) -> None:
    """Say on standard error which queries are few, see `refuse_too_few`."""
    name, n_train = _smallest_set(training_ids)
    if n_train < FEW_TRAINING:
        print(
            f"few training queries: {n_train} in the set {name}. Below {FEW_TRAINING}, a model "
            "hardly moves, and then loses little whether it extrapolates or not.",
            file=sys.stderr,
        )
    _report_few_measuring(n_test, "test queries", "change", FINDS_CHANGE)
    _report_few_measuring(n_gate, "queries for the lead", "lead", FINDS_LEAD)


def _smallest_set(training_ids: Mapping[str, Sequence[str]]) -> tuple[str, int]:
    """Return the name and the size of the smallest training set."""
    sizes = {name: len(ids) for name, ids in training_ids.items()}
    name = min(sizes, key=sizes.__getitem__)
    return name, sizes[name]


def _report_few_measuring(n_queries: int, what: str, effect: str, largest: float) -> None:
    """Say on standard error if queries find only a change, or lead, above a share of the mean."""
    found = smallest_share(n_queries)
    if found > largest:
        limit = f"about {100 * found:.0f} % or more"
        print(
            f"few {what}: {n_queries} find a {effect} of {limit} with 80 % power, if values vary "
            "over queries as those of BM25 usually do.",
            file=sys.stderr,
        )


def smallest_share(n_queries: int) -> float:
    """Return the smallest change found with 80 % power at 5 %, as a share of the mean.

    If values vary by SPREAD, and those of the regimes correlate at one half.
    """
    error = SPREAD / n_queries**0.5
    reach = 1.96 * error
    return float(detectable(-reach, reach, error))
