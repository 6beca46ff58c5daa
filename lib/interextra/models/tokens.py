"""Each text is tokenized once a process: training draws the same passages again and again, and search encodes them."""

from collections import defaultdict
from collections.abc import Sequence

from torch.nn.utils.rnn import pad_sequence

LIMIT = 100_000  # texts whose tokens are kept, some 150 MB; beyond it texts are tokenized each time
_KEPT: dict = defaultdict(dict)  # (tokenizer, lengths, task) → text → its tensors without padding


class Remembered:
    """`preprocess` of a `Transformer` of sentence-transformers; what it returns is the same."""

    def __init__(self, words):
        self.words = words
        lengths = words.query_length, words.document_length, str(words.query_expansion), words.max_seq_length
        self.key = hash(words.tokenizer.backend_tokenizer.to_str()), *lengths

    def __call__(self, inputs: Sequence, prompt=None, task=None, **options) -> dict:
        plain = type(self.words).preprocess
        kept = _KEPT[*self.key, task]
        new = [text for text in dict.fromkeys(inputs) if text not in kept] if isinstance(inputs[0], str) else inputs
        if prompt or options or not isinstance(inputs[0], str) or len(kept) + len(new) > LIMIT:
            return plain(self.words, inputs, prompt=prompt, task=task, **options)
        padding = self.words.tokenizer.pad_token_id
        if new:
            coded = plain(self.words, new, task=task)
            ends = (coded["input_ids"] != padding).sum(dim=1).tolist()
            columns = {name: column for name, column in coded.items() if name != "modality"}
            for row, (text, end) in enumerate(zip(new, ends, strict=True)):
                kept[text] = {name: column[row, :end].clone() for name, column in columns.items()}
        found = [kept[text] for text in inputs]
        batch = {}
        for name in found[0]:
            value = padding if name == "input_ids" else 0
            batch[name] = pad_sequence([text[name] for text in found], batch_first=True, padding_value=value)
        return batch | {"modality": "text"}
