"""Hard negatives by sentence-transformers' miner, which excludes nothing by itself."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interextra.data.texts import normalised
from interextra.own.splitting import EXPOSED
from interextra.store import InputError, offenders

if TYPE_CHECKING:
    from datasets import Dataset


def mine_hard_negatives(
    model: Any,
    train: "str | Path | Dataset",
    corpus: "Dataset | Sequence[str] | None" = None,
    exclude: Collection[str] | None = None,
    **options: Any,
) -> "Dataset":
    """Mine hard negatives, none of which is an excluded passage or a copy of one.

    Parameters
    ----------
    model : SentenceTransformer
        Finds the negatives.
    train : path or Dataset
        A training set of `interextra split`, written in the formats `ids` and `st`, or pairs of
        texts (first column: anchor, second: positive).
    corpus : Dataset or sequence of str
        What negatives are mined from: texts, or columns passage_id and text. Unless given, the
        folder's passages; of pairs, their positives.
    exclude : collection of str
        Passages that are no negatives, by their passage_id or by their text, which is compared
        `normalised`. Unless given, the passages of the folder's exposed.txt; of pairs, none.
    **options
        Of sentence-transformers' `mine_hard_negatives`.

    Returns
    -------
    Dataset
        That of sentence-transformers' `mine_hard_negatives`.

    Raises
    ------
    InputError
        A folder without these files; an excluded passage that the corpus lacks; an excluded
        passage that is a positive of another pair, as the miner takes positives for negatives; no
        passage left.
    """
    from sentence_transformers.util import mine_hard_negatives as mine

    pairs: Any = train
    if isinstance(train, str | Path):
        pairs, corpus, exclude = _read_folder(Path(train), corpus, exclude)
    pairs = pairs.select_columns(pairs.column_names[:2])
    positives = list(pairs[pairs.column_names[1]])
    passage_ids, texts = _passages(corpus, positives)
    excluded = _excluded_texts(exclude or (), passage_ids, texts)
    _refuse_positives(positives, excluded)
    kept = [text for text in texts if normalised(text) not in excluded]
    if not kept:
        raise InputError("mine_hard_negatives: every passage is excluded; exclude fewer")
    return mine(pairs, model, corpus=kept, **options)


def _read_folder(
    folder: Path,
    corpus: Any,
    exclude: Collection[str] | None,
) -> tuple[Any, Any, Collection[str]]:
    """Read the pairs of a training set, and where they are not given passages and exclusions."""
    from datasets import load_from_disk

    try:
        pairs = load_from_disk(folder / "st").select_columns(["anchor", "positive"])
        if corpus is None:
            corpus = load_from_disk(folder.parent / "corpus")
        if exclude is None:
            exclude = (folder / EXPOSED).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InputError(
            f"{folder}: no training set in the formats ids and st ({error}); split again"
        ) from None
    return pairs, corpus, exclude


def _passages(corpus: Any, positives: list[str]) -> tuple[list[str], list[str]]:
    """Return the ids of the passages, "" where they have none, and their texts."""
    if corpus is None:
        corpus = positives
    if hasattr(corpus, "column_names"):
        return list(corpus["passage_id"]), list(corpus["text"])
    texts = list(corpus)
    return [""] * len(texts), texts


def _excluded_texts(exclude: Collection[str], passage_ids: list[str], texts: list[str]) -> set[str]:
    """Return the normalised texts that are excluded, by id or by text."""
    text_of = dict(zip(passage_ids, texts, strict=True))
    known_texts = set(map(normalised, texts))
    excluded, unknown = set(), []
    for name in exclude:
        text = normalised(text_of.get(name, name))
        if text in known_texts:
            excluded.add(text)
        else:
            unknown.append(name)
    if unknown:
        raise InputError(
            f"mine_hard_negatives: exclude: {len(unknown)} are neither the passage_id nor the text "
            f"of a passage: {offenders(unknown)}"
        )
    return excluded


def _refuse_positives(positives: list[str], excluded: set[str]) -> None:
    """Refuse excluded passages that the miner adds again, as they are positives."""
    both = [text for text in positives if normalised(text) in excluded]
    if both:
        raise InputError(
            f"mine_hard_negatives: exclude: {len(both)} are positives of training pairs, which the "
            f"miner takes for negatives of others: {offenders(both)}; leave these pairs out"
        )
