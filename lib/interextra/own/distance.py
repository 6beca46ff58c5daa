"""How far the training sets of a split lie from its test queries, beside random sets.

By the encoder that made the split, and by another one: what is far in the vectors that divided the
queries may be near in all others.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from interextra.models.encoders import (
    LSA,
    TfIdf,
    default_encoder,
    encoder_of,
    report_seconds,
)
from interextra.splits.split import REGIMES, OfVectors, Split
from interextra.store import Store

INTERPOLATION, EXTRAPOLATION = REGIMES
GIVEN = "given vectors"
N_ENCODED = 20_000  # queries that MiniLM encodes unasked only to describe a split
N_TESTED = 1000  # test queries that are compared at most, drawn
N_DRAWS = 100  # random sets of the size of each set
N_TOP = 256  # nearest training queries of a test query that are looked at first
BLOCK = 2**24  # cosines in memory at a time
SMALL = 0.05  # a gap below this share of the similarity of random sets counts as none
GAP = "gap"  # the row of interpolation minus extrapolation
NEAREST_COLUMNS = {"query_id": str, "train_query_id": str, "cosine": float}
COLUMNS = {  # of the distances
    "set": str,
    "regime": str,
    "encoder": str,
    "n_train": int,
    "n_test": int,
    "similarity": float,
    "random": float,
    "random_low": float,
    "random_high": float,
}
# rows of test queries → their cosines to all training queries, float32[rows, n_train]
Cosines = Callable[[np.ndarray], np.ndarray]


class Compared(NamedTuple):
    """What of a split is compared."""

    train: pd.DataFrame  # all queries that are divided: query_id, text
    test: pd.DataFrame  # all that measure: query_id, text
    drawn: np.ndarray  # rows of `test` whose distances are told, N_TESTED at most
    sets: dict[str, np.ndarray]  # rows of `train` in each training set
    random_from: np.ndarray  # rows of `train` that random sets are drawn from
    is_far: np.ndarray  # bool[sets, drawn], whether a set is a query's extrapolation
    seed: int

    @classmethod
    def of(
        cls,
        split: Split,
        training_ids: Mapping[str, Sequence[str]],
        searched: pd.DataFrame,
        gate_ids: Sequence[str],
        strata: pd.Series | None,
    ) -> "Compared":
        """Return the queries to compare, of which those of the gate are none.

        Parameters
        ----------
        training_ids : query_ids of each training set.
        searched : all queries that the models search: query_id, text.
        strata : what left-out part each of these belongs to; None: a set names its regime.
        """
        train = split.pool.frame()[["query_id", "text"]]
        is_searched = train["query_id"].isin(searched["query_id"])
        is_gate = searched["query_id"].isin(gate_ids)
        test = searched[~is_gate].reset_index(drop=True)
        n_drawn = min(N_TESTED, len(test))
        drawn = test.sample(n_drawn, random_state=split.seed)
        places = pd.Index(train["query_id"])
        return cls(
            train=train,
            test=test,
            drawn=drawn.index.to_numpy(),
            sets={name: places.get_indexer(ids) for name, ids in training_ids.items()},
            random_from=np.flatnonzero(~is_searched),
            is_far=_is_far(list(training_ids), drawn["query_id"], strata),
            seed=split.seed,
        )

    def only_drawn(self) -> "Compared":
        """Return it without the test queries whose distances are not told."""
        test = self.test.iloc[self.drawn].reset_index(drop=True)
        every_row = np.arange(len(test))
        return self._replace(test=test, drawn=every_row)


class Measured(NamedTuple):
    """How near the training sets of a split lie to its test queries."""

    distances: pd.DataFrame  # see `measure`
    nearest: pd.DataFrame  # of each test query: query_id, train_query_id, cosine
    encoder: str  # that says which is nearest


def _is_far(
    set_names: Sequence[str],
    test_ids: pd.Series,
    strata: pd.Series | None,
) -> np.ndarray:
    """Return whether a set is the extrapolation of a test query: bool[sets, test queries]."""
    rows = []
    for name in set_names:
        before, _, left_out = name.partition("-")
        if strata is None:
            row = np.full(len(test_ids), before == EXTRAPOLATION)
        else:
            row = test_ids.map(strata).eq(left_out).to_numpy()
        rows.append(row)
    return np.stack(rows)


def measure(
    split: Split,
    compared: Compared,
    store: Store,
    options: Mapping[str, Any],
) -> Measured:
    """Return how similar test queries are to their nearest training query in each set.

    Parameters
    ----------
    split : Split
        Computed in the store.
    options : Mapping
        encoder, vectors and other_encoder, see `splitting.DEFAULTS`.

    Returns
    -------
    Measured
        distances has set, regime, encoder, n_train, n_test, similarity (mean cosine of a test query
        to the nearest training query of the set), and random, random_low, random_high: the mean and
        the middle 95 % of N_DRAWS random sets of this size, on the same test queries. A set has a
        row for each regime that it is of, and the last row of an encoder is the gap, interpolation
        minus extrapolation, each test query with itself. The first encoder made the split, or was
        asked for; it finds the nearest training query of each test query.
    """
    first, other = encoders_of(split, len(compared.train), len(compared.test), options)
    cosines = _first_cosines(first, split, compared, store)
    tables = [_table(first, compared, cosines)]
    nearest = _nearest_queries(compared, cosines)
    if other != first:
        drawn = compared.only_drawn()
        other_cosines = _encoded(other, drawn, "--other-encoder")
        tables.append(_table(other, drawn, other_cosines))
    distances = pd.concat(tables, ignore_index=True)[list(COLUMNS)]
    return Measured(distances, nearest, first)


def encoders_of(
    split: Split, n_train: int, n_test: int, options: Mapping[str, Any]
) -> tuple[str, str]:
    """Return the encoders that describe a split: the one that made it, and another one.

    Of a shift, which no encoder makes, the first is the one that is asked for.

    Parameters
    ----------
    n_train, n_test : int
        Queries that are divided, and that measure.
    options : Mapping
        See `measure`.
    """
    if not isinstance(split, OfVectors):
        first = options["encoder"] or _unasked(n_train)
    elif options["vectors"]:
        first = GIVEN
    else:
        first = options["encoder"] or default_encoder()
    return first, options["other_encoder"] or _unasked(n_train + n_test, first)


def _first_cosines(first: str, split: Split, compared: Compared, store: Store) -> Cosines:
    """Return the cosines by the first encoder: of the vectors that made the split, if some did."""
    if not isinstance(split, OfVectors):
        return _encoded(first, compared, "--encoder")
    train, test = split.vectors.read(store)
    test_ids = [query_id for part in split.vectors.test for query_id in part.ids()]
    rows = pd.Index(test_ids).get_indexer(compared.test["query_id"])
    return _dense_cosines(train, test[rows])


def _unasked(n_queries: int, first: str = "") -> str:
    """Return the encoder that describes a split unasked, another one than the `first`.

    It is MiniLM where that is installed and the queries are few, else TF-IDF, else LSA. Where the
    first one counts words, the other one does, too: nobody who asks for seconds waits for MiniLM.
    """
    by_words = [TfIdf.FORM, LSA.FORM]
    names = by_words
    if n_queries <= N_ENCODED and first not in by_words:
        names = [default_encoder(), *by_words]
    return next(name for name in names if name != first)


def refuse_other_encoder(name: str) -> None:
    """Refuse an encoder that there is not; "" is left to choose."""
    if name:
        encoder_of(name)


def _table(encoder: str, compared: Compared, cosines: Cosines) -> pd.DataFrame:
    """Return the distances by an encoder."""
    table = _compare(compared, _Nearest.of(cosines, compared))
    return table.assign(encoder=encoder)


def _nearest_queries(compared: Compared, cosines: Cosines) -> pd.DataFrame:
    """Return the nearest training query of each test query, and its cosine.

    Those that are searched, too, are none. A test query that is like none, as one without a
    direction, has "" and 0.
    """
    candidates = compared.train.iloc[compared.random_from]
    candidate_ids = candidates["query_id"].to_numpy()
    all_rows = np.arange(len(compared.test))
    blocks = []
    for rows in _blocks(all_rows, len(compared.train)):
        of_candidates = cosines(rows)[:, compared.random_from]
        first = of_candidates.argmax(axis=1)
        highest = of_candidates.max(axis=1)
        query_ids = compared.test["query_id"].iloc[rows]
        nearest_ids = np.where(highest > 0, candidate_ids[first], "")
        columns = (query_ids, nearest_ids, highest.clip(min=0))
        named = zip(NEAREST_COLUMNS, columns, strict=True)
        blocks.append(pd.DataFrame(dict(named)))
    return pd.concat(blocks, ignore_index=True)


def _encoded(encoder: str, compared: Compared, option: str) -> Cosines:
    """Return the cosines of the queries by an encoder, which an option of the command names.

    Those of TF-IDF are exact.
    """
    train_texts = compared.train["text"].tolist()
    test_texts = compared.test["text"].tolist()
    return _cosines(encoder, train_texts, test_texts, option)


def nearest_of(
    encoder: str, train_texts: list[str], test_texts: list[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the nearest training query of each test query, exactly.

    Parameters
    ----------
    encoder : str
        tf-idf, or one of `models.encoders`.

    Returns
    -------
    cosines : float32[test queries]
    rows : int[test queries]
        Of the training queries; ties: the lower row.
    """
    cosines_of = _cosines(encoder, train_texts, test_texts, "--encoder")
    cosines = []
    rows = []
    every_row = np.arange(len(test_texts))
    for block_rows in _blocks(every_row, len(train_texts)):
        block = cosines_of(block_rows)
        cosines.append(block.max(axis=1))
        rows.append(block.argmax(axis=1))
    return np.concatenate(cosines), np.concatenate(rows)


def _cosines(encoder: str, train_texts: list[str], test_texts: list[str], option: str) -> Cosines:
    """Return the cosines of texts by an encoder, which an option of the command names."""
    report_seconds(encoder, [*train_texts, *test_texts], option)
    kind, option = encoder_of(encoder)
    encoder_of_texts = kind(option, train_texts)
    if isinstance(encoder_of_texts, TfIdf):
        train_weights = encoder_of_texts.weights(train_texts).T.tocsr()
        test_weights = encoder_of_texts.weights(test_texts)
        return lambda rows: (test_weights[rows] @ train_weights).toarray()
    encode = encoder_of_texts.encode_queries
    return _dense_cosines(encode(train_texts), encode(test_texts))


def _dense_cosines(train: np.ndarray, test: np.ndarray) -> Cosines:
    """Return the cosines of vectors float[n, d]; one of length 0 has 0 to all."""
    train = _unit_vectors(train)
    test = _unit_vectors(test)
    return lambda rows: test[rows] @ train.T


def _unit_vectors(vectors: np.ndarray) -> np.ndarray:
    """Return vectors of length 1, float32[n, d]; those of length 0 stay as they are."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    divisors = np.where(lengths > 0, lengths, 1)
    return (vectors / divisors).astype(np.float32)


class _Nearest(NamedTuple):
    """Finds the similarity of each test query to its nearest training query of any set."""

    cosines: Cosines
    drawn: np.ndarray  # rows of the test queries
    n_train: int
    top: np.ndarray  # float32[test queries, k], the highest cosines, descending
    top_rows: np.ndarray  # int[test queries, k], the training queries that have them

    @classmethod
    def of(cls, cosines: Cosines, compared: Compared) -> "_Nearest":
        """Find the nearest of all training queries for each drawn test query."""
        n_train = len(compared.train)
        top = []
        top_rows = []
        every_train_row = np.arange(n_train)
        for rows in _blocks(compared.drawn, n_train):
            block = cosines(rows)
            if n_train > N_TOP:
                nearest = np.argpartition(-block, N_TOP, axis=1)[:, :N_TOP]
            else:
                nearest = np.tile(every_train_row, (len(rows), 1))
            values = np.take_along_axis(block, nearest, axis=1)
            order = np.argsort(-values, axis=1)
            top.append(np.take_along_axis(values, order, axis=1))
            top_rows.append(np.take_along_axis(nearest, order, axis=1))
        all_top = np.concatenate(top)
        all_top_rows = np.concatenate(top_rows)
        return cls(cosines, compared.drawn, n_train, all_top, all_top_rows)

    def similarity(self, set_rows: np.ndarray) -> np.ndarray:
        """Return the highest cosine of each test query to a training set: float32[test queries]."""
        is_member = np.zeros(self.n_train, bool)
        is_member[set_rows] = True
        is_in_set = is_member[self.top_rows]
        first = is_in_set.argmax(axis=1)
        every_row = np.arange(len(first))
        highest = self.top[every_row, first]
        farther = np.flatnonzero(~is_in_set.any(axis=1))  # none of the set is among the nearest
        for rows in _blocks(farther, self.n_train):
            block = self.cosines(self.drawn[rows])
            highest[rows] = block[:, set_rows].max(axis=1)
        return highest


def _blocks(rows: np.ndarray, n_train: int) -> Iterator[np.ndarray]:
    """Yield the rows of so many test queries as fit into memory."""
    n_rows = max(1, BLOCK // n_train)
    for start in range(0, len(rows), n_rows):
        yield rows[start : start + n_rows]


def _compare(compared: Compared, nearest: _Nearest) -> pd.DataFrame:
    """Return the distances by one encoder, without its name."""
    sets = compared.sets
    similarity = np.stack([nearest.similarity(rows) for rows in sets.values()])
    of_random = _of_random_sets(compared, nearest)
    table = _rows_of_sets(compared, similarity, of_random)
    gaps = _gaps(similarity, compared.is_far)
    if len(gaps):
        n_train = min(map(len, sets.values()))
        random_gaps = _gaps(of_random, compared.is_far)
        table.append((GAP, "", n_train, *_described(gaps, random_gaps)))
    columns = [name for name in COLUMNS if name != "encoder"]
    return pd.DataFrame(table, columns=columns)


def _rows_of_sets(
    compared: Compared, similarity: np.ndarray, of_random: np.ndarray
) -> list[tuple[Any, ...]]:
    """Return a row for each regime that a set is of: COLUMNS without the encoder."""
    table = []
    for number, (name, rows) in enumerate(compared.sets.items()):
        is_far = compared.is_far[number]
        for regime, is_asked in ((INTERPOLATION, ~is_far), (EXTRAPOLATION, is_far)):
            if is_asked.any():
                of_set = similarity[number, is_asked]
                of_random_set = of_random[:, number, is_asked]
                table.append((name, regime, len(rows), *_described(of_set, of_random_set)))
    return table


def _of_random_sets(compared: Compared, nearest: _Nearest) -> np.ndarray:
    """Return the similarities to N_DRAWS random sets: float32[draws, sets, test queries]."""
    generator = np.random.default_rng(compared.seed)
    draws = []
    for _ in range(N_DRAWS):
        draw = []
        for rows in compared.sets.values():
            random_rows = generator.choice(compared.random_from, len(rows), replace=False)
            draw.append(nearest.similarity(random_rows))
        draws.append(np.stack(draw))
    return np.stack(draws)


def _described(values: np.ndarray, of_random: np.ndarray) -> tuple[int, float, float, float, float]:
    """Return how many test queries there are, their mean, and what random sets have.

    Parameters
    ----------
    values : float32[test queries]
    of_random : float32[draws, test queries]
        Their mean and the middle 95 % of their means are told.
    """
    means = of_random.mean(axis=-1)
    low, high = np.quantile(means, [0.025, 0.975])
    random_mean = float(means.mean())
    return len(values), values.mean(), random_mean, float(low), float(high)


def _gaps(similarity: np.ndarray, is_far: np.ndarray) -> np.ndarray:
    """Return interpolation minus extrapolation of each test query that has both.

    Parameters
    ----------
    similarity : float32[..., sets, test queries]
    is_far : bool[sets, test queries]
    """
    n_far = is_far.sum(axis=0)
    n_near = len(is_far) - n_far
    has_both = (n_far > 0) & (n_near > 0)
    similarity = similarity[..., has_both]
    is_far = is_far[:, has_both]
    near_sums = (similarity * ~is_far).sum(axis=-2)
    far_sums = (similarity * is_far).sum(axis=-2)
    return near_sums / n_near[has_both] - far_sums / n_far[has_both]


def printed(table: pd.DataFrame) -> str:
    """Return the distances as text, with a line that says what it shows."""
    head = (
        "Mean cosine of a test query to its nearest training query, beside random sets (n_test: at "
        f"most {N_TESTED:,} test queries are drawn for this):"
    )
    text = table.to_string(index=False, float_format="%.3f")
    return f"{head}\n{text}"


def warnings(table: pd.DataFrame) -> list[str]:
    """Return a sentence for each encoder by which the split is hardly one, with what to do.

    It is hardly one where the gap between the regimes is not above the middle 95 % of the gaps of
    random sets, or is below the share SMALL of the similarity of random sets.

    Parameters
    ----------
    table : DataFrame
        Of `measure`; its first encoder made the split.
    """
    sentences = []
    is_gap = table["set"] == GAP
    for gap in table[is_gap].itertuples():
        is_level = ~is_gap & (table["encoder"] == gap.encoder)
        level = table.loc[is_level, "random"].mean()
        least = max(gap.random_high, SMALL * level)
        if gap.similarity > least:
            continue
        sentences.append(
            f"Hardly an extrapolation split by {gap.encoder}: test queries are nearer to the "
            f"training queries of interpolation by a cosine of {gap.similarity:+.3f} (random sets "
            f"of the same size {gap.random_low:+.3f} to {gap.random_high:+.3f}; a gap counts above "
            f"{least:+.3f}). {_advice(gap.encoder, table)}"
        )
    return sentences


def _advice(encoder: str, table: pd.DataFrame) -> str:
    """Return what to do where a split is hardly one by an encoder."""
    is_restrain = table["set"].iloc[0].startswith(INTERPOLATION)
    if not is_restrain:
        by = "" if encoder == GIVEN else f" --encoder {encoder}"
        return f"Split by distance, with few training queries: split restrain{by} --size 0.1."
    fewer = "take fewer training queries (--size 0.1)"
    if encoder == table["encoder"].iloc[0]:
        return f"To separate the regimes, {fewer}, or leave out kinds of query (split shift)."
    return f"To separate them by it, divide by it (--encoder {encoder}), or {fewer}."
