"""What the tiny base reads: passages about invented things, their tokens, and the names in them."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle, islice
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from interextra.world.templates import below, pick

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
        invented = {name: _invented_name(draw, name) for name in longest_first}
        any_name = "|".join(map(re.escape, longest_first))
        pattern = re.compile(rf"\b(?:{any_name})\b")
        for _, text in world.passages:
            plain = QUESTION.sub("", text.lower())
            yield pattern.sub(lambda match, invented=invented: invented[match[0]], plain)


def _invented_name(draw: Random, name: str) -> str:
    """Return an invented name of as many words as another one, but at most two."""
    n_words = min(2, len(name.split()))
    return " ".join(_invented_word(draw) for _ in range(n_words))


def _invented_word(draw: Random) -> str:
    """Return an invented word of 4 to 8 letters, consonants and vowels in turn."""
    length = 4 + below(draw, 5)
    letters = ""
    for pool in islice(cycle(LETTERS), length):
        letters += pick(draw, pool)
    return letters


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
    characters = sorted(set().union(*texts))
    normalised = learner.normalizer.normalize_str("".join(characters))
    letters = sorted(set(normalised) - {" "})
    # The trainer numbers letters in the order of a hash table and breaks ties by number. Named in
    # advance, as if they were special, they have fixed numbers.
    continued = [f"##{letter}" for letter in letters]
    fixed = [*SPECIAL, *letters, *continued]
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocabulary, special_tokens=fixed, show_progress=False
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
    blocks = []
    for start in range(0, len(texts), 10_000):
        block = list(texts[start : start + 10_000])
        coded = tokenizer(block, padding="max_length", truncation=True, max_length=LENGTH)
        blocks.append(np.array(coded["input_ids"], dtype=np.int16))
    return np.concatenate(blocks)


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
    letters_of_names: set[int] = set()
    for word in WORD.finditer(text):
        if word[0].lower() in names:
            letters_of_names.update(range(*word.span()))
    for position, (start, end) in enumerate(coded["offset_mapping"]):
        is_special = start == end
        is_repeated = ids.count(ids[position]) > 1
        if not is_special and is_repeated and letters_of_names.issuperset(range(start, end)):
            return position
    return None


def rare_words(texts: Iterable[str], share: float = 1e-3) -> set[str]:
    """Return words (lower case) that occur in less than `share` of the texts.

    In text of other worlds these are the names.
    """
    texts = list(texts)
    most = share * len(texts)
    n_texts_with: Counter[str] = Counter()
    for text in texts:
        words = WORD.findall(text.lower())
        n_texts_with.update(set(words))
    return {word for word, n_texts in n_texts_with.items() if n_texts < most}
