"""What the tiny base reads: passages about invented things, their tokens, and the names in them."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle, islice
from random import Random
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ROLES = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
LENGTH = 72
WORD = re.compile(r"\w+")
QUESTION = re.compile(r"[^.?!:;]*\?\s*")
LETTERS = ("bcdfghjklmnprstvwz", "aeiou")


def renamed_passages(seed: int, n_worlds: int) -> Iterator[str]:
    """Yield passages of generated worlds, lower case, names of entities replaced by invented ones.

    Questions are taken out: a heading with its answer would be a pair of query and passage.
    """
    from interextra.world import generate

    for number in range(n_worlds):
        world_seed = 1_000_000 + 1_000 * seed + number
        world = generate("mini", seed=world_seed, n_train=1_500, n_dev=100, mismatch=4)
        draw = Random(f"renamed-{seed}-{number}")
        names = {name.lower() for names in world.facts["entities"] for name in names}
        # longest first: it is what a name that holds another one is replaced by
        longest_first = sorted(names, key=lambda name: (-len(name), name))
        invented = {}
        for name in longest_first:
            invented[name] = " ".join(_invented(draw) for _ in name.split()[:2])
        pattern = re.compile(rf"\b({'|'.join(map(re.escape, longest_first))})\b")
        for _, text in world.passages:
            plain = QUESTION.sub("", text.lower())
            yield pattern.sub(lambda match, invented=invented: invented[match[1]], plain)


def _invented(draw: Random) -> str:
    """Return an invented word of 4 to 8 letters, consonants and vowels in turn."""
    length = 4 + int(draw.random() * 5)
    pools = islice(cycle(LETTERS), length)
    return "".join(pool[int(draw.random() * len(pool))] for pool in pools)


def train_tokenizer(texts: Iterable[str], vocabulary: int) -> "PreTrainedTokenizerFast":
    """Return a lower-cased WordPiece tokenizer that is trained on texts.

    The same texts give the same bytes.

    Parameters
    ----------
    texts : read once.
    vocabulary : number of tokens.
    """
    from tokenizers import processors, trainers
    from transformers import PreTrainedTokenizerFast

    texts = list(texts)
    learner = _wordpiece({})
    characters = "".join(sorted(set().union(*texts)))
    letters = sorted(set(learner.normalizer.normalize_str(characters)) - {" "})
    # The trainer numbers letters in the order of a hash table and breaks ties by number. Named in
    # advance, as if they were special, they have fixed numbers.
    alphabet = [*letters, *(f"##{letter}" for letter in letters)]
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocabulary, special_tokens=[*SPECIAL, *alphabet], show_progress=False
    )
    learner.train_from_iterator(texts, trainer)
    tokenizer = _wordpiece(learner.get_vocab())
    tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")],
    )
    roles = dict(zip(ROLES, SPECIAL, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=128, **roles)


def _wordpiece(vocab: dict[str, int]) -> "Tokenizer":
    """Return a WordPiece tokenizer with a vocabulary, lower-cased and split as BERT's."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    tokenizer = Tokenizer(models.WordPiece(vocab=vocab, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def token_ids(tokenizer: "PreTrainedTokenizerFast", texts: Sequence[str]) -> np.ndarray:
    """Return the tokens of texts, int16[n, LENGTH], padded with 0."""
    ids = np.zeros((len(texts), LENGTH), dtype=np.int16)
    for start in range(0, len(texts), 10_000):
        block = list(texts[start : start + 10_000])
        coded = tokenizer(block, truncation=True, max_length=LENGTH)
        for row, ids_of_text in enumerate(coded["input_ids"], start):
            ids[row, : len(ids_of_text)] = ids_of_text
    return ids


def repeated_names(
    tokenizer: "PreTrainedTokenizerFast", texts: Sequence[str], names: set[str]
) -> list[tuple[int, int]]:
    """Return (text, position) of a token of a name that occurs at least twice in its text.

    The first one of each text that has one.

    Parameters
    ----------
    tokenizer : of the texts.
    texts : where names are looked for.
    names : words in lower case.
    """
    places = []
    for row, text in enumerate(texts):
        position = _repeated_name(tokenizer, text, names)
        if position is not None:
            places.append((row, position))
    return places


def _repeated_name(tokenizer: "PreTrainedTokenizerFast", text: str, names: set[str]) -> int | None:
    """Return the position of the first token of a name that is repeated in a text."""
    coded = tokenizer(text, truncation=True, max_length=LENGTH, return_offsets_mapping=True)
    ids = coded["input_ids"]
    spans = [word.span() for word in WORD.finditer(text) if word[0].lower() in names]
    for position, (start, end) in enumerate(coded["offset_mapping"]):
        is_special = start == end
        is_in_name = any(first <= start and end <= last for first, last in spans)
        if not is_special and is_in_name and ids.count(ids[position]) > 1:
            return position
    return None


def rare_words(texts: Iterable[str], share: float = 1e-3) -> set[str]:
    """Return words (lower case) that occur in less than `share` of the texts.

    In text of other worlds these are the names.
    """
    texts = list(texts)
    n_texts_with = Counter(word for text in texts for word in set(WORD.findall(text.lower())))
    return {word for word, n_texts in n_texts_with.items() if n_texts < share * len(texts)}
