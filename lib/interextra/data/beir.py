"""Collections in the BEIR layout: corpus.jsonl, queries.jsonl, qrels/*.tsv, each plain or gzipped."""

import hashlib
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from interextra.data import converted as store
from interextra.data.collection import Collection, batches_of
from interextra.data.trec import Origin, open_bytes, read_qrels, write_aside
from interextra.ground.errors import InputError

CORPUS = pa.schema([("_id", pa.string()), ("title", pa.string()), ("text", pa.string())])
FIRST_SPLITS = ("train", "dev", "test")


def open_beir(
    folder: str | Path, cache_dir: str | Path | None = None, dangling: str = "error", empty: str = "error"
) -> Collection:
    """Open a folder in the BEIR layout; its first opening converts it to Arrow in the cache.

    A passage's text is `title + " " + text` where a title is there, as in BEIR and MS MARCO. Keys of a query's
    `metadata` become columns of `queries()`. Each file of `qrels/` is a split: train, dev, test first, others by name.

    Later openings compare the sizes and times of the source files only; a file that was touched is hashed again, and
    converted again only when its content changed.

    Parameters
    ----------
    dangling : "error" or "drop" qrels that name an unknown query or passage.
    empty : "error" or "keep" passages and queries without text.

    Raises
    ------
    InputError
        A missing folder or file; a line that is not the JSON expected; and what `store.build` refuses.
    """
    options = {"dangling": dangling, "empty": empty}
    spec = ",".join([f"beir:{folder}"] + [f"{name}={value}" for name, value in options.items() if value != "error"])
    folder = Path(folder).expanduser().resolve()
    sources = _sources(folder)
    cache = store.cache_folder(cache_dir)
    key = store.content_key("beir", _hashes(folder, sources, cache), options)
    target = cache / f"beir-{folder.name}-{key}"
    found = store.open_stored(target, folder.name, spec)
    if found is None:
        _convert(sources, target, options)
        found = store.open_stored(target, folder.name, spec)
    return found


def _sources(folder: Path) -> dict[str, Path]:
    if not folder.is_dir():
        raise InputError(f"beir:{folder}: no such folder; give one that holds corpus.jsonl, queries.jsonl and qrels/")
    sources = {}
    for name in ("corpus.jsonl", "queries.jsonl"):
        there = [path for path in (folder / name, folder / f"{name}.gz") if path.is_file()]
        if len(there) != 1:
            what = "no such file, plain or .gz" if not there else f"both {name} and {name}.gz; keep one"
            raise InputError(f"{folder / name}: {what}; the BEIR layout is corpus.jsonl, queries.jsonl, qrels/*.tsv")
        sources[name] = there[0]
    splits = {}
    for path in sorted([*folder.glob("qrels/*.tsv"), *folder.glob("qrels/*.tsv.gz")]):
        split = path.name.removesuffix(".gz").removesuffix(".tsv")
        if split in splits:
            raise InputError(f"{path}: split {split!r} stands twice, plain and .gz; keep one")
        splits[split] = path
    if not splits:
        raise InputError(f"{folder / 'qrels'}: no *.tsv files; write one file of qrels for each split, e.g. test.tsv")
    ordered = [s for s in FIRST_SPLITS if s in splits] + [s for s in splits if s not in FIRST_SPLITS]
    return sources | {split: splits[split] for split in ordered}


def _hashes(folder: Path, sources: dict[str, Path], cache: Path) -> dict[str, str]:
    """SHA-256 of each source file, from the record of the last opening where size and time are the same."""
    record = cache / "sources" / f"{hashlib.sha256(str(folder).encode()).hexdigest()[:20]}.json"
    try:
        known = json.loads(record.read_text())
    except (OSError, ValueError):
        known = {}
    now = {}
    for name, path in sources.items():
        stat = path.stat()
        stamp = [path.name, stat.st_size, stat.st_mtime_ns]
        before = known.get(name)
        now[name] = before if before and before[:3] == stamp else [*stamp, _sha256(path)]
    if now != known:
        with write_aside(record) as aside:
            aside.write_text(json.dumps(now, indent=1))
    return {name: stamp[3] for name, stamp in now.items()}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _convert(sources: dict[str, Path], target: Path, options: dict[str, str]) -> None:
    sources = dict(sources)
    corpus, queries = sources.pop("corpus.jsonl"), sources.pop("queries.jsonl")
    origins = {"passages": Origin(str(corpus), corpus), "queries": Origin(str(queries), queries)}
    origins |= {split: Origin(str(path), path, header=1) for split, path in sources.items()}
    qrels = {split: read_qrels(path) for split, path in sources.items()}
    store.build(target, _passages(corpus), read_queries_jsonl(queries), qrels, origins, **options)


def _passages(corpus: Path) -> Iterator[tuple[pa.Array, pa.Array]]:
    """Columns (doc_id, text) block by block. Arrow parses; where it stumbles, Python goes on and names the line."""
    rows = 0
    try:
        reader = pa.json.open_json(
            corpus,
            pa.json.ReadOptions(block_size=2 << 20),  # read ahead: memory is some forty blocks
            pa.json.ParseOptions(explicit_schema=CORPUS, unexpected_field_behavior="ignore"),
        )
        for batch in reader:
            ids, titles, texts = (batch.column(name) for name in CORPUS.names)
            if ids.null_count or texts.null_count:
                break
            titles = pc.fill_null(titles, "")
            joined = pc.binary_join_element_wise(titles, texts, " ")
            yield ids, pc.if_else(pc.equal(titles, ""), texts, joined)
            rows += len(batch)
        else:
            return
    except (pa.ArrowInvalid, OSError):
        pass
    left = islice(_objects(corpus), rows, None)
    yield from batches_of(
        (row["_id"], f"{row['title']} {row['text']}" if row.get("title") else row["text"]) for _, row in left
    )


def _objects(path: Path) -> Iterator[tuple[int, dict]]:
    """(line number, object) for each line; an InputError where `_id` or `text` is not a string."""
    try:
        with open_bytes(path) as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                try:
                    row = json.loads(line)
                except ValueError as error:
                    raise InputError(f"{path}:{number}: not JSON ({error}); write one object a line") from None
                row = row if isinstance(row, dict) else {}
                for name in ("_id", "text", "title"):
                    if not isinstance(row.get(name), str) and not (name == "title" and row.get(name) is None):
                        shown = f"{name!r} is {str(row[name])[:40]}" if name in row else f"no {name!r}"
                        raise InputError(f"{path}:{number}: {shown}; _id and text (and title) must be strings")
                yield number, row
    except (EOFError, OSError) as error:
        raise InputError(f"{path}: cannot be read ({error}); is it a complete gzip file?") from None


def read_queries_jsonl(path: str | Path) -> pd.DataFrame:
    """Queries of a BEIR queries.jsonl: query_id, text, and a column for each key of `metadata` (missing: None)."""
    ids, texts, metadata = [], [], []
    for number, row in _objects(Path(path)):
        extra = row.get("metadata") or {}
        if not isinstance(extra, dict):
            raise InputError(f"{path}:{number}: metadata is {str(extra)[:40]}; it must be an object")
        ids.append(row["_id"])
        texts.append(row["text"])
        metadata.append(extra)
    return queries_frame(ids, texts, metadata)


def queries_frame(ids: list[str], texts: list[str], attributes: list[dict]) -> pd.DataFrame:
    """A table of queries: query_id, text, and a column for each attribute that any of them has."""
    frame = pd.DataFrame({"query_id": pd.Series(ids, dtype="str"), "text": pd.Series(texts, dtype="str")})
    for key in dict.fromkeys(key for row in attributes for key in row):
        column = f"metadata_{key}" if key in ("query_id", "text") else key
        frame[column] = pd.Series([row.get(key) for row in attributes], dtype=object)
    return frame
