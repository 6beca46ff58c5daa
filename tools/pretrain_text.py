"""What the tiny base reads: passages about invented things, their tokens, and the names in them."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle
from random import Random

import numpy as np

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LENGTH = 72
WORD = re.compile(r"\w+")
QUESTION = re.compile(r"[^.?!:;]*\?\s*")
LETTERS = ("bcdfghjklmnprstvwz", "aeiou")


def renamed_passages(seed: int, n_worlds: int) -> Iterator[str]:
    """Passages of `n_worlds` generated worlds, lower case, names of entities replaced by invented
    ones.

    Questions are taken out: a heading with its answer would be a pair of query and passage.
    """
    from interextra.world import generate

    for world in range(n_worlds):
        made = generate(
            "mini", seed=1_000_000 + 1_000 * seed + world, n_train=1_500, n_dev=100, mismatch=4
        )
        draw = Random(f"renamed-{seed}-{world}")
        names = sorted(
            {name.lower() for names in made.facts["entities"] for name in names},
            key=lambda name: (-len(name), name),
        )
        other = {name: " ".join(_invented(draw) for _ in name.split()[:2]) for name in names}
        pattern = re.compile(rf"\b({'|'.join(map(re.escape, names))})\b")
        for _, text in made.passages:
            parts = pattern.split(QUESTION.sub("", text.lower()))  # text, name, text, name, …
            yield "".join(other[part] if i % 2 else part for i, part in enumerate(parts))


def _invented(draw: Random) -> str:
    length = 4 + int(draw.random() * 5)
    return "".join(
        pool[int(draw.random() * len(pool))]
        for _, pool in zip(range(length), cycle(LETTERS), strict=False)
    )


def train_tokenizer(texts: Iterable[str], vocabulary: int):
    """A lower-cased WordPiece tokenizer (transformers, fast) trained on `texts`; the same texts
    give the same bytes.
    """
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    texts = list(texts)

    def wordpiece(**vocab):
        pieces = Tokenizer(models.WordPiece(unk_token="[UNK]", **vocab))
        pieces.normalizer = normalizers.BertNormalizer(lowercase=True)
        pieces.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        return pieces

    learner = wordpiece()
    letters = sorted(
        set(learner.normalizer.normalize_str("".join(sorted(set().union(*texts))))) - {" "}
    )
    # The trainer numbers letters in the order of a hash table and breaks ties by number. Named in
    # advance, as if they were special, they have fixed numbers.
    alphabet = [*letters, *(f"##{letter}" for letter in letters)]
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocabulary, special_tokens=[*SPECIAL, *alphabet], show_progress=False
    )
    learner.train_from_iterator(texts, trainer)
    pieces = wordpiece(vocab=learner.get_vocab())
    pieces.add_special_tokens(list(SPECIAL))
    ends = [(name, pieces.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    pieces.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )
    roles = dict(
        zip(
            ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True
        )
    )
    return PreTrainedTokenizerFast(tokenizer_object=pieces, model_max_length=128, **roles)


def token_ids(tokenizer, texts: Sequence[str]) -> np.ndarray:
    """int16[n, LENGTH], padded with 0."""
    out = np.zeros((len(texts), LENGTH), dtype=np.int16)
    for start in range(0, len(texts), 10_000):
        batch = tokenizer(list(texts[start : start + 10_000]), truncation=True, max_length=LENGTH)[
            "input_ids"
        ]
        for row, ids in enumerate(batch, start):
            out[row, : len(ids)] = ids
    return out


def repeated_names(tokenizer, texts: Sequence[str], names: set[str]) -> list[tuple[int, int]]:
    """(text, position) of one token a text that belongs to a word of `names` and occurs at least
    twice in the text.
    """
    found = []
    for row, text in enumerate(texts):
        coded = tokenizer(text, truncation=True, max_length=LENGTH, return_offsets_mapping=True)
        ids = coded["input_ids"]
        spans = [word.span() for word in WORD.finditer(text) if word[0].lower() in names]
        for position, (start, end) in enumerate(coded["offset_mapping"]):
            inside = end > start and any(a <= start and end <= b for a, b in spans)
            if inside and ids.count(ids[position]) > 1:
                found.append((row, position))
                break
    return found


def rare_words(texts: Iterable[str], share: float = 1e-3) -> set[str]:
    """Words (lower case) that occur in less than `share` of the texts: in text of other worlds
    these are the names.
    """
    texts = list(texts)
    counts = Counter(word for text in texts for word in set(WORD.findall(text.lower())))
    return {word for word, count in counts.items() if count < share * len(texts)}
