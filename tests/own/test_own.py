"""Splits for other trainers are read by their libraries, and runs on them are measured in both
regimes.
"""

import gzip
import importlib
import itertools
import json
import os
import re
import sys
import types
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from datasets import load_from_disk
from toy_own import OPTIONS, written
from toy_topics import TOPICS

from interextra.claims import judgement
from interextra.cli import main
from interextra.data import load
from interextra.data.load import open_collection
from interextra.data.queries import Source
from interextra.data.runs import COLUMNS, RunFile
from interextra.data.trec import read_qrels
from interextra.measures.evaluate import per_query
from interextra.models.base import verified_base
from interextra.own import regimes
from interextra.own import splitting as own
from interextra.own.formats import FORMATS, TrainingSet
from interextra.own.regimes import report
from interextra.own.run_files import read_run
from interextra.own.split_folder import SplitFolder
from interextra.own.splitting import MANIFEST
from interextra.own.values import MODEL, values_of_run, values_of_runs
from interextra.papers.released import read_shift
from interextra.splits.split import REGIMES
from interextra.stats.effects import effects
from interextra.store.errors import InputError
from interextra.store.files import sha256


def test_every_format_holds_the_pairs_of_the_split(spec, store, house):
    split, manifest = written(spec, store, "resttest", "out", list(FORMATS), negatives=2)
    sets, data = split.sets(store), open_collection(spec)
    relevant = set(data.qrels("train")[["query_id", "doc_id"]].itertuples(index=False, name=None))
    text = dict(zip(data.queries("train")["query_id"], data.queries("train")["text"], strict=True))
    texts = dict(
        zip(data.passages.doc_ids.to_pylist(), data.passages.texts(slice(None)), strict=True)
    )
    for name, ids in sets.items():
        rows = load_from_disk(f"out/{name}/ids").to_pandas()
        assert sorted(rows["query_id"]) == sorted(ids) and manifest["sets"][name]["pairs"] == len(
            rows
        )
        assert all(
            pair in relevant
            for pair in rows[["query_id", "positive_id"]].itertuples(index=False, name=None)
        )
        for column in ("negative_id_1", "negative_id_2"):
            assert not any(
                pair in relevant
                for pair in rows[["query_id", column]].itertuples(index=False, name=None)
            )
        read = load_from_disk(f"out/{name}/st").to_pandas()
        assert read["anchor"].tolist() == rows["query_id"].map(text).tolist()
        assert read["negative_2"].tolist() == rows["negative_id_2"].map(texts).tolist()
        lines = [
            json.loads(line) for line in Path(f"out/{name}/tevatron.jsonl").read_text().splitlines()
        ]
        assert [line["query_id"] for line in lines] == rows["query_id"].tolist()
        assert [line["positive_document_ids"] for line in lines] == [
            [one] for one in rows["positive_id"]
        ]
        lines = [
            json.loads(line)
            for line in Path(f"out/{name}/flagembedding.jsonl").read_text().splitlines()
        ]
        assert [line["pos"] for line in lines] == [[one] for one in read["positive"]]
        read = load_from_disk(f"out/{name}/pylate-kd").to_pandas()
        assert read["document_ids"].str[0].tolist() == rows["positive_id"].tolist()
        assert read["scores"].map(list).tolist() == [[1.0, 0.0, 0.0]] * len(rows)
        assert set(open_collection("beir:out/beir").query_ids(name)) == set(ids)
        assert (
            read_qrels(f"out/{name}.train-qrel.txt")["query_id"].tolist()
            == rows["query_id"].tolist()
        )
    assert {
        path.relative_to("out").as_posix() for path in Path("out").rglob("*") if path.is_file()
    } == {
        *manifest["files"],
        MANIFEST,
    }
    assert all(sha256(Path("out", name)) == sum256 for name, sum256 in manifest["files"].items())


def test_a_shift_is_written_as_both_groups_released_theirs(spec, store, house):
    split, _ = written(spec, store, "shift", "out", ["released"], attribute="column:topic")
    strata, sets = split.strata(store), split.sets(store)
    for name in split.names:
        queries, qrels, without_text = read_shift(Path("out"), name)
        assert (
            set(queries["query_id"]) == set(qrels["query_id"]) == set(strata.index[strata == name])
        )
        assert not without_text
        trained = read_qrels(f"out/without-{name}.train-qrel.txt")["query_id"]
        assert set(trained) == set(sets[f"without-{name}"])
    assert not Path("out/held-out.train-qrel.txt").exists()


def test_ids_are_resolved_by_sentence_transformers(spec, store):
    from sentence_transformers.util import resolve_ids

    written(spec, store, "restrain", "out", size=12)
    queries, corpus = load_from_disk("out/queries"), load_from_disk("out/corpus")
    rows = load_from_disk("out/interpolation-12/ids")
    rows.set_transform(
        resolve_ids({"query_id": queries, "positive_id": corpus, "negative_id": corpus})
    )
    assert len(rows) == 12 and all(row["positive"] == f"About {row['query']}" for row in rows)


def test_exposed_passages_are_listed_and_never_drawn_where_spared(spec, store):
    split, _ = written(
        spec, store, "shift", "out", attribute="column:topic", negatives=8, spare=True
    )
    held_out = set(split.sets(store)["held-out"])
    answers = {
        f"p-{one}" for name in ("train", "test") for one in open_collection(spec).query_ids(name)
    }
    for topic in TOPICS:
        taught = {f"p-{one}" for one in split.sets(store)[f"without-{topic}"]}
        exposed = set(Path(f"out/without-{topic}/exposed.txt").read_text().split())
        assert exposed == answers - taught and {f"p-{one}" for one in held_out} <= exposed
        rows = load_from_disk(f"out/without-{topic}/ids").to_pandas()
        assert not exposed & set(rows.filter(like="negative").to_numpy().ravel())
    drawn = TrainingSet.of(split, split.sets(store)["without-sky"], 8, False)
    assert drawn.exposed[drawn.negatives].any()


def write_runs(spec, folder, given, quality):
    """Runs whose share of queries with their passage first is `quality(set, query)`; the others
    have it second.
    """
    draw, made = np.random.default_rng(3), {}
    for name in given.sets:
        for seed in (1, 2):
            rows = []
            for query_id in given.queries["query_id"]:
                first = draw.random() < quality(name, query_id)
                rows += [
                    (query_id, f"p-{query_id}", 2.0 if first else 0.5),
                    (query_id, "p-sky-aurora-0", 1.0),
                ]
            frame = pd.DataFrame(rows, columns=["query_id", "doc_id", "score"]).drop_duplicates(
                ["query_id", "doc_id"]
            )
            made[name, seed] = RunFile.from_frame(frame)
            made[name, seed].write_trec(folder / f"{name}.{seed}.run")
    return made


@pytest.mark.parametrize("protocol", ["restrain", "resttest", "shift"])
def test_a_planted_loss_is_found_in_its_regime(spec, store, tmp_path, protocol, capsys):
    written(
        spec,
        store,
        protocol,
        "out",
        attribute="column:topic",
        size=0 if protocol == "resttest" else 12,
    )
    given, runs = SplitFolder.open(Path("out")), tmp_path / "runs"
    runs.mkdir()

    def quality(name, query_id):
        out = (
            name.startswith("extrapolation")
            if given.strata is None
            else name == f"without-{given.strata[query_id]}"
        )
        return 0.2 if out else 0.9

    write_runs(spec, runs, given, quality)
    asked = [
        "regimes",
        "--split",
        "out",
        "--runs",
        f"{runs}/{{part}}.{{seed}}.run",
        "-m",
        "RR@10",
        "--out",
        "found",
    ]
    assert main([*asked, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    every = told["regimes"][0]
    assert every["interpolation"] > every["extrapolation"] + 0.2 and every["high"] < 0
    assert (
        every["n_queries"] == len(given.queries) - len(given.gate_ids) and every["n_trainings"] == 2
    )
    assert len(given.gate_ids) == round(0.2 * len(given.queries))
    assert told["sentences"][0].startswith(("A loss", "Undecided, as the model is not shown"))
    claims = {row["claim"]: row for row in told["claims"]}
    assert (
        claims["loss"]["estimate"] == pytest.approx(every["change"]) and claims["loss"]["high"] < 0
    )
    assert claims["lead"]["n_queries"] == len(given.gate_ids) and "held out" in told["sentences"][2]
    names = ("regimes", "claims", "losers", "systems", "leads", "values")
    tables = {f"{name}.csv" for name in names}
    assert {Path(name).name for name in told["files"]} == {*tables, "regimes.html"}
    values = pd.read_csv("found/values.csv")
    assert list(values) == ["name", "qid", "measure", "value"] and set(
        values["name"].str.split(",").str[0]
    ) == set(REGIMES)
    leads = {row["regime"]: row for row in told["leads"]}
    means = {row["system"]: row["mean"] for row in told["systems"]}
    for regime, row in leads.items():
        lead = means[f"fine-tuned, {regime}"] - means["BM25"]
        assert row["lead"] == pytest.approx(lead) and row["low"] < lead < row["high"]
        assert row["n_queries"] == every["n_queries"]
    assert set(leads) == set(REGIMES) and told["baseline"].startswith("BM25 with k1 = ")
    assert main(asked) == 0
    printed = capsys.readouterr().out
    assert "interpolation" in printed and f"\n{regimes.HALVES}\n" in printed
    title = f"Lead over the baseline ({told['baseline']}) on the same test queries"
    assert title in printed and title in Path("found/regimes.html").read_text()
    for file in list(runs.iterdir()):  # a folder for each seed
        name, seed, _ = file.name.rsplit(".", 2)
        (runs / seed).mkdir(exist_ok=True)
        file.rename(runs / seed / f"{name}.run")
    asked[4] = f"{runs}/{{seed}}/{{part}}.run"
    assert main([*asked, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["regimes"] == told["regimes"]


@pytest.mark.parametrize("protocol", ["restrain", "resttest", "shift"])
def test_the_lead_is_of_queries_that_measure_no_loss(spec, store, protocol):
    """With a split dev the gate is its queries; a lead there decides whether a loss is judged, and
    how.
    """
    named = [
        (f"dev-{topic}-{word}", topic, word)
        for topic, words in TOPICS.items()
        for word in words.split()
    ]
    lines = [f"{name}\tp-{topic}-{word}-0\t1" for name, topic, word in named]
    folder = Path(spec.removeprefix("beir:"))
    (folder / "qrels" / "dev.tsv").write_text(
        "\n".join(["query-id\tcorpus-id\tscore", *lines]) + "\n"
    )
    with (folder / "queries.jsonl").open("a") as file:
        for name, topic, word in named:
            text = f"which {topic} is {word} at all"
            file.write(json.dumps({"_id": name, "text": text, "metadata": {"topic": topic}}) + "\n")
    options = {"attribute": "column:topic", "gate_split": own.gate_of(OPTIONS, Source.of(spec))}
    assert options["gate_split"] == "dev"
    written(spec, store, protocol, "out", size=0 if protocol == "resttest" else 12, **options)
    given = SplitFolder.open(Path("out"))
    assert sorted(given.gate_ids) == sorted(name for name, *_ in named)
    frame = pd.DataFrame(itertools.product(given.queries["query_id"], REGIMES, "12"))
    values = frame.set_axis(["query_id", "regime", "seed"], axis=1).assign(
        measure="RR@10", model=MODEL
    )
    is_held, is_out = values["query_id"].isin(given.gate_ids), values["regime"] == REGIMES[1]
    place = values["query_id"].map({name: at for at, name in enumerate(given.queries["query_id"])})
    near = given.queries[~given.queries["query_id"].isin(given.gate_ids)][["query_id"]].assign(
        train_query="", cosine=0.5
    )
    near["is_near"] = np.arange(len(near)) % 2 == 0
    rival = given.queries[["query_id"]].assign(measure="RR@10", value=0.5)
    for ahead, verdict in ((0.9, "holds"), (0.1, "undecided")):
        values["value"] = np.where(is_held, ahead, np.where(is_out, 0.3, 0.8)) + place % 3 / 50 * (
            1 + is_out
        )
        found = report(given, values, rival, near, margin=0.05, seed=1, n_boot=400)
        claims = found.claims.set_index("claim")
        assert claims.loc["loss", "verdict"] == verdict
        assert claims.loc["loss", "estimate"] == pytest.approx(0.34 / 0.82 - 1)
        assert claims.loc["lead", "verdict"] == ("holds" if ahead > 0.5 else "contradicted")
        assert found.changes["n_queries"].tolist() == [len(near), len(near) // 2, len(near) // 2]
        assert claims["resolution"].gt(0).all() and "split dev" in found.sentences[2]
    alone = report(
        given._replace(gate_ids=[]), values[~is_held], rival, near, margin=0.05, seed=1, n_boot=400
    )
    assert (
        alone.claims["claim"].tolist() == ["loss"]
        and alone.claims["reason"].item() == judgement.UNMEASURED
    )
    equal = values.assign(value=0.8 + place % 3 / 50)
    alike = report(given, equal, rival, near, margin=0.05, seed=1, n_boot=400).claims.set_index(
        "claim"
    )
    assert alike.loc["loss", "reason"] == judgement.NO_VARIATION and alike["size"].eq("").all()
    equal["value"] += np.where(is_out, place % 5 / 1000, 0)
    near_to = report(given, equal, rival, near, margin=0.05, seed=1, n_boot=400).claims.set_index(
        "claim"
    )
    assert near_to.loc["loss", "size"] == judgement.WITHIN and near_to.loc["lead", "size"] == ""


def written_values(given, folder, order):
    """A CSV of values for each set and seed, with the queries in this order; the loss is .3, of
    some queries less.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, seed in itertools.product(given.sets, (1, 2)):
        draw = np.random.default_rng([seed, len(name)])
        level = (0.5 if name.startswith("extrapolation") else 0.8) + draw.normal(scale=0.03)
        of_query = pd.Series(
            level + draw.normal(scale=0.05, size=len(given.queries)), given.queries["query_id"]
        )
        rows = {"name": "a", "qid": order, "measure": "RR@10", "value": of_query[order].to_numpy()}
        pd.DataFrame(rows).to_csv(folder / f"{name}.{seed}.csv", index=False)
    return values_of_runs(given, f"{folder}/{{part}}.{{seed}}.csv", ["RR@10"])


def nearness(given):
    """Half of the test queries near, with a baseline at .6."""
    tested = given.queries[~given.queries["query_id"].isin(given.gate_ids)][["query_id"]]
    near = tested.assign(train_query="", cosine=0.5, is_near=np.arange(len(tested)) % 2 == 0)
    return given.queries[["query_id"]].assign(measure="RR@10", value=0.6), near


def test_the_order_of_values_in_a_file_moves_no_verdict(spec, store, tmp_path):
    written(spec, store, "restrain", "out", size=12)
    given = SplitFolder.open(Path("out"))
    rival, near = nearness(given)
    ids = given.queries["query_id"].tolist()
    orders = {"qrels": ids, "id": sorted(ids), "turned": ids[::-1]}
    found = {
        name: report(
            given,
            written_values(given, tmp_path / name, order),
            rival,
            near,
            0.05,
            seed=1,
            n_boot=400,
        )
        for name, order in orders.items()
    }
    for name in ("id", "turned"):
        pd.testing.assert_frame_equal(found[name].claims, found["qrels"].claims, check_exact=True)
        pd.testing.assert_frame_equal(found[name].changes, found["qrels"].changes, check_exact=True)
        assert found[name].sentences == found["qrels"].sentences
    shuffled = written_values(given, tmp_path / "qrels", ids).sample(frac=1, random_state=3)
    again = report(
        given, shuffled, rival.sample(frac=1, random_state=4), near, 0.05, seed=1, n_boot=400
    )
    pd.testing.assert_frame_equal(again.claims, found["qrels"].claims, check_exact=True)


def test_the_noise_of_a_training_counts_once_in_all_queries_and_both_halves(spec, store, tmp_path):
    """Two trainings of two models have two degrees of freedom, on however many sets of queries."""
    written(spec, store, "restrain", "out", size=12)
    given = SplitFolder.open(Path("out"))
    rival, near = nearness(given)
    values = written_values(given, tmp_path / "values", given.queries["query_id"].tolist())
    tested = values[~values["query_id"].isin(given.gate_ids)].assign(queries="all")
    labels, ends = ["queries", "model", "measure"], ["low", "high"]
    [alone] = effects(tested, labels, "regime", REGIMES, "delta", seed=1, n_boot=400)[
        ends
    ].values.tolist()
    together = report(given, values, rival, near, 0.05, seed=1, n_boot=400).changes.set_index(
        "queries"
    )
    assert together.loc["all", ends].tolist() == alone
    thrice = report(
        given, values.drop(columns="trained"), rival, near, 0.05, seed=1, n_boot=400
    ).changes
    assert thrice.set_index("queries").loc["all", ends].tolist() != alone


def test_values_per_query_are_read_as_pyterrier_writes_them(spec, store, tmp_path):
    written(spec, store, "restrain", "out", size=12)
    given = SplitFolder.open(Path("out"))
    rows = [("a", query_id, "RR@10", 0.25) for query_id in given.queries["query_id"]]
    path = tmp_path / "interpolation-12.csv"
    pd.DataFrame(rows, columns=["name", "qid", "measure", "value"]).to_csv(path, index=False)
    assert values_of_run(path, given, ["RR@10"])["value"].tolist() == [0.25] * len(given.queries)
    pd.DataFrame(rows[1:], columns=["name", "qid", "measure", "value"]).to_csv(path, index=False)
    with pytest.raises(InputError, match="1 queries are missing"):
        values_of_run(path, given, ["RR@10"])


def test_runs_of_other_tools_are_read_alike(tmp_path):
    hits = {"q1": {"a": 2.0, "b": 1.0}, "q2": {"c": 0.5}}
    rows = [(query, doc, score) for query, docs in hits.items() for doc, score in docs.items()]
    frame = pd.DataFrame(rows, columns=["qid", "docno", "score"])
    frame.to_csv(tmp_path / "a.csv", index=False)
    (tmp_path / "a.json").write_text(
        json.dumps({"mteb_model_meta": {"model_name": "m"}, "default": {"test": hits}})
    )
    results = {
        query: [{"corpus_id": doc, "score": score} for doc, score in docs.items()]
        for query, docs in hits.items()
    }
    lines = [
        json.dumps({"query_id": query, "query": "text", "results": found})
        for query, found in results.items()
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n")
    RunFile.from_frame(frame.rename(columns=COLUMNS)).write_trec(tmp_path / "a.run")
    read = [read_run(tmp_path / f"a.{end}").frame() for end in ("run", "csv", "json", "jsonl")]
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(InputError, match="list.json: not read as a run"):
        read_run(tmp_path / "list.json")
    assert all(read[0].equals(one) for one in read[1:]) and len(read[0]) == 3


def test_every_format_may_be_gzipped_and_a_text_may_hold_any_line_sign(tmp_path):
    """JSONL is split at line feeds: U+2028, U+0085 and others stand in texts; the last line may be
    blank.
    """
    (tmp_path / "a.run").write_text("q1 Q0 a 1 2.0 t\nq1 Q0 b 2 1.0 t\n")
    (tmp_path / "a.csv").write_text("qid,docno,score\nq1,a,2.0\nq1,b,1.0\n")
    (tmp_path / "a.json").write_text('{"default": {"test": {"q1": {"a": 2.0, "b": 1.0}}}}')
    found = '[{"corpus_id": "a", "score": 2.0}, {"corpus_id": "b", "score": 1}]'
    line = f'{{"query_id": "q1", "query": "one\u2028two\u0085three\x7ffour", "results": {found}}}'
    (tmp_path / "a.jsonl").write_text(line + "\n\n \n", encoding="utf-8")
    expected = read_run(tmp_path / "a.run").frame()
    for end in ("run", "csv", "json", "jsonl"):
        (tmp_path / f"a.{end}.gz").write_bytes(gzip.compress((tmp_path / f"a.{end}").read_bytes()))
        for path in (tmp_path / f"a.{end}", tmp_path / f"a.{end}.gz"):
            assert read_run(path).frame().equals(expected), path


def test_anybodys_parquet_is_read_and_its_faults_are_named(tmp_path):
    path, frame = (
        tmp_path / "run.parquet",
        pd.DataFrame({"query_id": ["p", "q"], "doc_id": "a", "score": [2.0, 1.0]}),
    )
    for names in ({}, {"query_id": "qid", "doc_id": "docno"}):
        frame.rename(columns=names).to_parquet(path)
        assert (
            read_run(path).frame().drop(columns="rank").equals(frame.astype({"score": "float32"}))
        )
    for column, values in (
        ("query_id", 1.5),
        ("doc_id", True),
        ("score", "high"),
        ("score", [[1], [2]]),
    ):
        frame.assign(**{column: values}).to_parquet(path)
        with pytest.raises(InputError, match=f"{path}.*{column}"):
            read_run(path)
    with pytest.raises(InputError, match="no such file"):
        read_run(tmp_path / "none.parquet")


def test_a_query_without_hits_has_an_empty_ranking(tmp_path):
    (tmp_path / "a.json").write_text('{"default": {"test": {"p": {}, "q": {"a": 2.0}, "r": {}}}}')
    lines = [
        {"query_id": "p", "results": []},
        {"query_id": "q", "results": [{"corpus_id": "a", "score": 2.0}]},
    ]
    (tmp_path / "a.jsonl").write_text(
        "".join(json.dumps(one) + "\n" for one in [*lines, lines[0] | {"query_id": "r"}])
    )
    qrels = pd.DataFrame({"query_id": ["p", "q", "r"], "doc_id": "a", "relevance": 1})
    for name in ("a.json", "a.jsonl"):
        run = read_run(tmp_path / name)
        assert run.query_ids == ["p", "q", "r"] and run.offsets.tolist() == [0, 0, 1, 1]
        assert per_query(run, qrels, ["RR"])["RR"].tolist() == [0, 1, 0]


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("protocol", ["restrain", "resttest"])
def test_blank_queries_that_were_kept_are_named_with_their_split(spec, store, protocol, split):
    """Only the numbers of rows were shown, of which side nobody knew."""
    path = Path(spec.removeprefix("beir:"))
    name = open_collection(spec).query_ids(split)[1]
    lines = [json.loads(line) for line in (path / "queries.jsonl").read_text().splitlines()]
    texts = [json.dumps(one | {"text": " "} if one["_id"] == name else one) + "\n" for one in lines]
    (path / "queries.jsonl").write_text("".join(texts))
    load._opened.cache_clear()
    with pytest.raises(
        InputError,
        match=rf"split {split}: 1 queries have a vector of zeros: \('{name}', ' '\); leave",
    ):
        written(
            f"{spec},empty=keep", store, protocol, "out", size=12 if protocol == "restrain" else 0
        )


@pytest.mark.parametrize(
    ("name", "text", "part"),
    [
        ("a.json", '{"default": {"test": {"q": {"d": 1, "d": 2}}}}', "the key 'd' stands twice"),
        ("a.json", "[" * 100_000, "nested too deeply"),
        ("a.json", f'{{"default": {{"test": {{"q": {{"d": {10**400}}}}}}}}}', "numeric score"),
        (
            "a.json",
            '{"default": {"test": {"q": {"d": NaN}}}}',
            "or score in 1 rows: .'q', 'd', nan",
        ),
        ("a.json", '{"default": {"test": {"q": {"\\ud83d": 1}}}}', "half of a surrogate pair"),
        (
            "a.jsonl",
            '{"query_id": "q", "results": []}\n' * 2,
            ":2: query_id 'q' stands on line 1, too",
        ),
        (
            "a.jsonl",
            '{"query_id": "q", "results": [{"corpus_id": "d", "score": 2}, {"corpus_id": "d", "score": 1}]}',
            ":1: doc_id 'd' stands twice for query_id 'q'",
        ),
        ("a.json", '{"default": {"test": {}, "dev": {}}}', "2 subsets"),
        ("a.json", '{"default": {"test": {}}}', "no queries in it"),
        ("a.json", '{"default": {"test": {"q": [1]}}}', "not read as a run"),
        ("a.json", '{"q": {"d": 1.0, "e": 2.0}}', "2 subsets"),
        ("a.jsonl", "", "no rows in it"),
        ("a.jsonl", '{"query_id": 1}', ":1: .*results"),
        ("a.jsonl", '\n{"query_id": 1.0, "results": []}', ":2: .*1.0 is no id"),
        (
            "a.jsonl",
            '{"query_id": "q", "results": [{"corpus_id": "d", "score": "1"}]}',
            ":1: .*1 is no score",
        ),
        ("a.csv", "QID,DOCNO,SCORE\nq,d,1\n", "there are 'QID', 'DOCNO', 'SCORE'"),
        (
            "a.csv",
            "query,docno,score\nq,d,1\nr,d,1\n",
            ": no column 'query_id'; there are 'query', 'docno', 'score'; a run needs",
        ),
        ("a.csv", "qid,docno,rank\nq,d,1\n", ": no column 'score'; there are"),
        ("a.csv", "qid,name,value\nq,m,1\n", ": no column 'measure'; there are"),
        ("a.csv", "qid,docno,score\nq,d,1_0\n", "1_0' is no number"),
        (
            "a.csv",
            "qid,docno,score\nq,,1\nr,d,\n",
            ":2: an empty query_id or doc_id or score in 2 rows: .'q', '', 1.0., .'r', 'd', nan",
        ),
        ("a.csv", "docno,score\nq,d,1\n", "more fields than its header names"),
        ("a.csv", "qid,query_id,docno,score\nq,r,d,1\n", "a column stands twice"),
        ("a.csv", "qid,docno,score\n", "no rows in it"),
        ("a.csv", "", "not a table"),
    ],
)
def test_other_shapes_are_refused_with_their_file(tmp_path, name, text, part):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=f"{name}.*{part}"):
        read_run(tmp_path / name)


@pytest.mark.parametrize("end", ["run", "json", "jsonl", "parquet", "csv"])
def test_a_query_without_a_hit_counts_as_in_evaluate(spec, store, tmp_path, capsys, end):
    """As an empty ranking, whether the file can express one or not; how many there are is said in a
    line.
    """
    written(spec, store, "restrain", "out", size=12)
    given, path = SplitFolder.open(Path("out")), tmp_path / f"a.{end}"
    ids = given.queries["query_id"].tolist()
    hits = {query_id: {f"p-{query_id}": 1.0} if query_id != ids[3] else {} for query_id in ids}
    rows = [(query_id, *hit) for query_id, found in hits.items() for hit in found.items()]
    run = RunFile.from_frame(pd.DataFrame(rows, columns=["query_id", "doc_id", "score"]))
    run.write_trec(tmp_path / "a.run")
    frame = run.frame().rename(columns={"query_id": "qid", "doc_id": "docno"})[
        ["qid", "docno", "score"]
    ]
    if end in ("csv", "parquet"):
        frame.to_csv(path, index=False) if end == "csv" else frame.to_parquet(path)
    elif end == "json":
        path.write_text(json.dumps({"default": {"test": hits}}))
    elif end == "jsonl":
        found = {
            one: [{"corpus_id": doc, "score": score} for doc, score in of.items()]
            for one, of in hits.items()
        }
        lines = [
            json.dumps({"query_id": one, "results": results}) for one, results in found.items()
        ]
        path.write_text("\n".join(lines) + "\n")
    values = values_of_run(path, given, ["RR@10"]).set_index("query_id")["value"]
    assert values[ids[3]] == 0 and values.drop(ids[3]).eq(1).all() and len(values) == len(ids)
    told = f"{path}: 1 of 24 test queries without a hit ({ids[3]!r})"
    assert told in capsys.readouterr().err
    assert (
        main(["evaluate", "--qrels", "out/test.qrels", "--run", f"{tmp_path}/a.run", "-m", "RR@10"])
        == 0
    )
    out, error = capsys.readouterr()
    assert float(out.split()[1]) == pytest.approx(values.mean(), abs=1e-4)
    counted = (
        f"1 of 24 test queries without a hit ({ids[3]!r}): counted as rankings without a passage"
    )
    assert error == f"{tmp_path}/a.run: {counted}\n"
    assert values_of_run(path, given, ["RR@10"]).query("is_empty")["query_id"].tolist() == [ids[3]]
    frame.assign(qid="another", docno="p-sky-aurora-0").head(1).to_csv(
        tmp_path / "none.csv", index=False
    )
    with pytest.raises(InputError, match="none.csv: a hit for none of 24 test queries"):
        values_of_run(tmp_path / "none.csv", given, ["RR@10"])


def test_a_run_that_is_missing_is_named_by_its_file(spec, store, tmp_path, capsys):
    written(spec, store, "shift", "out", attribute="column:topic")
    given = SplitFolder.open(Path("out"))
    write_runs(spec, tmp_path, given, lambda *_: 0.5)
    (tmp_path / "without-sky.2.run").unlink()
    asked = [
        "regimes",
        "--split",
        "out",
        "--runs",
        f"{tmp_path}/{{part}}.{{seed}}.run",
        "-m",
        "RR@10",
    ]
    assert main(asked) == 2
    told = capsys.readouterr().err
    assert f"1 runs are missing: '{tmp_path}/without-sky.2.run'" in told


def test_a_place_that_takes_no_file_is_refused_before_anything_is_computed(
    spec, store, capsys, monkeypatch
):
    written(spec, store, "restrain", "out", size=12)
    Path("taken").touch()
    Path("gone").symlink_to("nowhere")

    def never(*_):
        raise AssertionError("computed")

    monkeypatch.setattr(type(store), "build", never)
    monkeypatch.setattr("interextra.own.audit.audit", never)
    monkeypatch.setattr("interextra.own.values.values_of_runs", never)
    commands = {
        "split": ["split", "restrain", "--collection", spec, "--size", "6", "--out"],
        "audit": ["audit", "--train", spec, "--test", spec, "--out"],
        "regimes": ["regimes", "--split", "out", "--runs", "{part}.run", "--out"],
        "probe": [
            "probe",
            "-m",
            "tiny-base",
            "--collection",
            spec,
            "--size",
            "6",
            "--output-folder",
        ],
        "runs": [
            "probe",
            "-m",
            "tiny-base",
            "--collection",
            spec,
            "--size",
            "6",
            "--prediction-folder",
        ],
    }
    for place in ("taken", "taken/below", "gone", "gone/below", "x" * 300):
        for name, command in commands.items():
            assert main([*command, place]) == 2, name
            assert place[:80] in capsys.readouterr().err


def test_bad_input_is_one_message(spec, store, tmp_path, capsys):
    for protocol, changed in (("restrain", "attribute"), ("resttest", "n_test"), ("shift", "k")):
        with pytest.raises(
            InputError,
            match=f"split {protocol}: --{changed.replace('_', '-')} is of another protocol",
        ):
            own.split_of(protocol, spec, own.DEFAULTS | {changed: 3})
    written(spec, store, "restrain", "out", size=12)
    (tmp_path / "runs").mkdir()
    given = SplitFolder.open(Path("out"))
    made = write_runs(spec, tmp_path / "runs", given, lambda *_: 0.5)
    missing = "2 runs are missing: 'runs/extrapolation-12.trec'"
    for refused, pattern in (
        ("{part}", "runs/x.run"),
        (missing, "runs/{part}.trec"),
        (r"write {part} where.*are no wildcards here, only {part} and", "runs/*.run"),
        (r"are missing.*are no wildcards here", "runs/{part}.*.run"),
    ):
        with pytest.raises(InputError, match=refused):
            values_of_runs(given, pattern, ["RR@10"])
    frame = made["interpolation-12", 1].frame()
    changed = pd.concat([frame, frame.head(1).assign(query_id="none")])
    RunFile.from_frame(changed).write_trec(tmp_path / "runs" / "interpolation-12.1.run")
    with pytest.raises(InputError, match="1 queries are not test queries"):
        values_of_runs(given, str(tmp_path / "runs" / "{part}.{seed}.run"), ["RR@10"])
    write_runs(spec, tmp_path / "runs", given, lambda *_: 0.5)
    unknown = (
        made["interpolation-12", 1].frame().assign(doc_id=lambda rows: rows["doc_id"].str.upper())
    )
    RunFile.from_frame(unknown).write_trec(tmp_path / "runs" / "interpolation-12.1.run")
    with pytest.raises(InputError, match="doc_ids are not in the collection"):
        values_of_runs(given, str(tmp_path / "runs" / "{part}.{seed}.run"), ["RR@10"])
    values = pd.DataFrame({"name": ["a", "b"], "qid": "x", "measure": "RR@10", "value": 0.5})
    for refused, table in (
        ("several systems", values),
        ("no values of 'nDCG@10'", values[:1]),
        ("1 rows repeat", values.assign(name="a", measure="nDCG@10")),
        ("no number", values[:1].assign(measure="nDCG@10", value="high")),
    ):
        table.to_csv(tmp_path / "values.csv", index=False)
        with pytest.raises(InputError, match=refused):
            values_of_run(tmp_path / "values.csv", given, ["nDCG@10"])
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(InputError, match="empty.csv"):
        values_of_run(tmp_path / "empty.csv", given, ["nDCG@10"])
    qrels = Path("out/test.qrels").read_text()
    Path("out/test.qrels").write_text(qrels.splitlines()[0] + "\n")
    with pytest.raises(InputError, match="test.qrels: was changed"):
        SplitFolder.open(Path("out"))
    Path("out/test.qrels").write_text(qrels)
    for option, value in (
        ("--size", "-5"),
        ("--negatives", "0"),
        ("--seed", "-1"),
        ("--size", "nan"),
    ):
        assert main(["split", "restrain", "--collection", spec, "--out", "bad", option, value]) == 2
        assert option in capsys.readouterr().err
    for option in (["--test-splits", "train"], ["--gate-split", "test"]):
        assert main(["split", "restrain", "--collection", spec, "--out", "bad", *option]) == 2
        assert "stands twice" in capsys.readouterr().err
    asked = ["split", "shift", "--collection", spec, "--out"]
    assert main([*asked, "out"]) == 2 and "--attribute" in capsys.readouterr().err
    assert (
        main([*asked, "out", "--attribute", "column:topic"]) == 2
        and "is there already" in capsys.readouterr().err
    )
    assert main([*asked, "new", "--attribute", "column:topic", "--format", "csv"]) == 2
    assert "'csv'" in capsys.readouterr().err
    assert (
        main(["regimes", "--split", "own", "--runs", "{part}"]) == 2
        and "no folder" in capsys.readouterr().err
    )


@pytest.fixture
def others(monkeypatch):
    """Packages of other trainers, of `pip install --no-deps --target $INTEREXTRA_READERS pylate
    FlagEmbedding`.
    """
    folder = Path(os.environ.get("INTEREXTRA_READERS") or "readers")
    if not folder.is_dir():
        pytest.skip("no packages of other trainers: set INTEREXTRA_READERS to their folder")
    monkeypatch.syspath_prepend(folder)
    return folder


def test_pylate_reads_its_format(spec, store, others):
    from pylate.utils import KDProcessing

    written(spec, store, "restrain", "out", formats=["pylate-kd"], size=12)
    queries, documents = (
        load_from_disk("out/pylate-queries"),
        load_from_disk("out/pylate-documents"),
    )
    rows = load_from_disk("out/interpolation-12/pylate-kd")
    rows.set_transform(KDProcessing(queries=queries, documents=documents).transform)
    assert len(rows) == 12 and all(row["documents"][0] == f"About {row['query']}" for row in rows)
    assert all(
        row["scores"] == [1.0, 0.0] and row["documents"][1].startswith("About") for row in rows
    )


def test_flagembedding_reads_its_format(spec, store, others, monkeypatch):
    name = "FlagEmbedding.abc.finetune.embedder"
    for part in ("FlagEmbedding", "FlagEmbedding.abc", "FlagEmbedding.abc.finetune", name):
        bare = types.ModuleType(
            part
        )  # without what its __init__ imports: packages that reading does not need
        bare.__path__ = [str(others / part.replace(".", "/"))]
        monkeypatch.setitem(sys.modules, part, bare)
    module = importlib.import_module(f"{name}.AbsDataset")
    written(spec, store, "restrain", "out", formats=["flagembedding"], size=12, negatives=3)
    options = {"train_data": ["out/interpolation-12/flagembedding.jsonl"], "train_group_size": 4}
    rows = module.AbsEmbedderTrainDataset(
        module.AbsEmbedderDataArguments(**options, cache_path="cache"), tokenizer=None
    )
    assert len(rows) == 12
    for query, passages, _ in (rows[at] for at in range(12)):
        assert passages[0] == f"About {query}" and len(set(passages)) == 4


def test_filters_of_other_trainers_leave_no_exposed_negative(spec, store, root, monkeypatch):
    """The scripts of the page for other trainers, as printed, on negatives most of which are
    exposed.
    """
    written(
        spec, store, "restrain", "out", ["ids", "st", "pylate-kd", "tevatron"], size=12, negatives=8
    )
    part = Path("out/extrapolation-12")
    exposed = set((part / "exposed.txt").read_text().split())
    page = (root / "book" / "own_retriever.md").read_text(encoding="utf-8")
    page = page.partition("## Excluding exposed passages")[2].partition("## Your own runs")[0]
    scripts = dict(re.findall(r"## ([\w-]+)\n.*?```python\n(.*?)```", page, flags=re.DOTALL))
    assert list(scripts) == ["sentence-transformers", "PyLate", "Tevatron", "FlagEmbedding"]
    more = {"sentence-transformers": [verified_base()], "PyLate": [part / "pylate-kd", 2]}
    for name, script in scripts.items():
        assert len([line for line in script.splitlines() if line]) <= 15
        given = more.get(name, [part / "tevatron.jsonl"] * (name == "Tevatron"))
        monkeypatch.setattr(sys, "argv", [name, str(part), *map(str, given)])
        exec(compile(script, name, "exec"), {})
    texts = load_from_disk("out/corpus").to_pandas().set_index("passage_id")["text"]
    allowed, rows = set(texts.drop(exposed)), load_from_disk(part / "st").to_pandas()
    assert (
        not set(rows.filter(like="negative").to_numpy().ravel()) <= allowed
    )  # else nothing was filtered
    mined = load_from_disk(part / "mined").to_pandas()
    assert (
        len(mined)
        and set(mined["negative"]) <= allowed
        and set(mined["anchor"]) <= set(rows["anchor"])
    )
    kept = load_from_disk(part / "pylate-unexposed").to_pandas()
    assert len(kept) and kept["document_ids"].map(len).eq(2).all()
    assert kept["scores"].map(list).tolist() == [[1.0, 0.0]] * len(kept)
    lines = [json.loads(line) for line in (part / "unexposed.jsonl").read_text().splitlines()]
    assert lines and {line["query_id"] for line in lines} >= set(kept["query_id"])
    for names in [*kept["document_ids"], *(line["negative_document_ids"] for line in lines)]:
        assert len(names) and not exposed & set(names)
    pool = {json.loads(line)["text"] for line in (part / "pool.jsonl").read_text().splitlines()}
    assert pool == allowed


def test_a_query_without_a_possible_negative_is_one_message(spec, store):
    """Every passage is relevant to some query, so that outside a set of all queries none is
    left.
    """
    with pytest.raises(InputError, match="no passage is left for a negative"):
        written(spec, store, "restrain", "out", size=1, spare=True)


def test_a_copy_of_an_answer_is_no_negative_and_as_exposed_as_the_answer(spec, store, house):
    """Each passage stands twice more, under other ids: by other letters, and word for word."""
    path = Path(spec.removeprefix("beir:"), "corpus.jsonl")
    passages = [json.loads(line) for line in path.read_text().splitlines()]
    copies = [
        {"_id": f"{one['_id']}-loud", "text": one["text"].upper().replace(" ", "  ")}
        for one in passages
    ]
    copies += [{"_id": f"{one['_id']}-again", "text": one["text"]} for one in passages]
    path.write_text("".join(json.dumps(one) + "\n" for one in passages + copies))
    split, _ = written(spec, store, "shift", "out", attribute="column:topic", negatives=8)
    for topic in TOPICS:
        rows = load_from_disk(f"out/without-{topic}/ids").to_pandas()
        own_texts = "p-" + rows["query_id"]
        for column in rows.filter(like="negative"):
            assert not any(
                negative.startswith(of)
                for of, negative in zip(own_texts, rows[column], strict=True)
            )
        exposed = set(Path(f"out/without-{topic}/exposed.txt").read_text().split())
        bare = {one for one in exposed if one.count("-") == 3}
        assert exposed == {f"{one}{end}" for one in bare for end in ("", "-loud", "-again")}
        assert not bare & {f"p-{one}" for one in split.sets(store)[f"without-{topic}"]}


def test_a_query_to_which_every_passage_is_relevant_is_left_out_and_named(spec, store, capsys):
    folder = Path(spec.removeprefix("beir:"))
    names = [json.loads(line)["_id"] for line in (folder / "corpus.jsonl").read_text().splitlines()]
    with (folder / "qrels" / "train.tsv").open("a") as file:
        file.writelines(f"sky-comet-0\t{name}\t1\n" for name in names if name != "p-sky-comet-0")
    split, made = written(spec, store, "restrain", "out", size=24)
    [name] = [name for name, ids in split.sets(store).items() if "sky-comet-0" in ids]
    rows = load_from_disk(f"out/{name}/ids").to_pandas()
    assert len(rows) == made["sets"][name]["queries"] == 23 and "sky-comet-0" not in set(
        rows["query_id"]
    )
    told = capsys.readouterr().err
    assert f"{name}: without 1 queries" in told and "'sky-comet-0'" in told and "spare" not in told
    with pytest.raises(
        InputError, match="no passage is left for a negative; give a larger set, or no --spare"
    ):
        written(spec, store, "restrain", "spared", size=1, spare=True)
    with pytest.raises(
        InputError, match="'sky-comet-0': no passage is left for a negative; give a larger set$"
    ):
        TrainingSet.of(split, ["sky-comet-0"], 1, False)


@pytest.fixture
def graded(spec):
    """The topics, where ten training queries have no relevant passage: judged 0, or −1, or both."""
    path = Path(spec.removeprefix("beir:"), "qrels", "train.tsv")
    head, *lines = path.read_text().splitlines()
    low = {
        line.split("\t")[0]: grade for line, grade in zip(lines[3::5], [0, -1] * 5, strict=False)
    }
    rows = [line.split("\t") for line in lines]
    lines = [f"{query}\t{doc}\t{low.get(query, 2)}" for query, doc, _ in rows]
    lines += [f"{query}\tp-sky-aurora-0\t0" for query in list(low)[:4] if query != "sky-aurora-0"]
    path.write_text("\n".join([head, *lines]) + "\n")
    return spec, set(low)


def test_sets_are_of_equal_size_after_what_cannot_train_is_left_out(graded, store, capsys):
    spec, low = graded
    n = 48 - len(low)
    for out, options in (("half", {}), ("share", {"size": 0.25}), ("number", {"size": 7})):
        size = {"half": n // 2, "share": n // 4, "number": 7}[out]
        split, made = written(spec, store, "restrain", out, ("ids",), **options)
        assert {name: counts["queries"] for name, counts in made["sets"].items()} == {
            f"interpolation-{size}": size,
            f"extrapolation-{size}": size,
        }
        assert not low & {one for ids in split.sets(store).values() for one in ids}
    assert (
        f"{len(low)} of 48 queries of the split 'train' have no relevant passage"
        in capsys.readouterr().err
    )
    split, made = written(spec, store, "resttest", "buckets", size=0.4)
    assert {counts["queries"] for counts in made["sets"].values()} == {int(0.4 * n)}
    split, made = written(spec, store, "shift", "kinds", attribute="column:topic", size=8)
    assert {counts["queries"] for counts in made["sets"].values()} == {8}
    assert not low & set(split.sets(store)["held-out"])
    with pytest.raises(InputError, match=f"size {n // 2 + 1}: two sets of {n} training queries"):
        written(spec, store, "restrain", "large", size=n // 2 + 1)


def test_vectors_of_a_user_have_a_row_for_each_query_of_the_split(graded, store):
    spec, low = graded
    ids = {split: open_collection(spec).query_ids(split) for split in ("train", "test")}
    draw = np.random.default_rng(3)
    vectors = {split: draw.normal(size=(len(of), 5)) for split, of in ids.items()}
    for split in ids:
        np.save(f"{split}.npy", vectors[split])
    every = pd.DataFrame(
        {"query_id": sum(ids.values(), []), "vector": list(np.concatenate([*vectors.values()]))}
    )
    every.to_parquet("all.parquet")
    sets = []
    for files in (["train.npy", "test.npy"], ["all.parquet"]):
        split = own.split_of(
            "restrain", spec, OPTIONS | {"k": 5, "n_test": 0.2, "vectors": files, "size": 9}
        )
        store.build(split)
        sets.append(split.sets(store))
    assert sets[0] == sets[1] and not low & {one for of in sets[0].values() for one in of}


def test_vectors_of_several_dimensions_are_one_message(spec, store, capsys):
    for name, n, d in (("train", 48, 5), ("test", 24, 4), ("flat", 48, 0)):
        np.save(f"{name}.npy", np.ones((n, d)))
    command = ["split", "restrain", "--collection", spec, "--out", "out", "--vectors"]
    assert main([*command, "train.npy", "test.npy"]) == 2
    assert "test.npy: vectors of 4 dimensions, those of train.npy have 5" in capsys.readouterr().err
    Path("empty.npy").touch()
    np.savez("several.npz", a=np.ones((48, 5)))
    Path("several.npz").rename("several.npy")
    for name in ("empty.npy", "several.npy"):
        assert main([*command, name, name]) == 2 and name in capsys.readouterr().err


def test_a_collection_without_spaces_between_words_is_divided(house, store, any_size):
    places, asks = (
        ["北京", "上海", "广州", "成都", "西安", "武汉"],
        ["天气怎么样", "有什么好吃的", "人口是多少"],
    )
    texts = [f"{place}的{ask}" for place in places for ask in asks]
    folder = house / "zh"
    (folder / "qrels").mkdir(parents=True)
    write = {"queries": texts, "corpus": [f"关于{text}" for text in texts]}
    for name, lines in write.items():
        rows = [json.dumps({"_id": str(at), "text": text}) for at, text in enumerate(lines)]
        (folder / f"{name}.jsonl").write_text("\n".join(rows) + "\n")
    for split, kept in (("train", range(12)), ("test", range(12, 18))):
        judged = "".join(f"{at}\t{at}\t1\n" for at in kept)
        (folder / "qrels" / f"{split}.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged)
    split, _ = written(f"beir:{folder}", store, "restrain", "out", size=3)
    vectors = split.vectors.read(store)
    assert all((np.linalg.norm(part, axis=1) > 0.99).all() for part in vectors)


def test_ids_of_every_odd_form_go_through_a_split_and_its_runs(house, store, tmp_path, any_size):
    odd = """007 7 nan None NaN 1e5 -3 <dbpedia:A_b> "y" a/b a%2Fb é É Q q true null 1.0 x# c,d x=y {z} 'w' \\t"""
    odd = odd.split()
    folder = house / "odd"
    (folder / "qrels").mkdir(parents=True)
    ids = {"train": odd[:12], "test": odd[12:]}
    words = ["red fox", "blue sea", "old oak", "cold wind"]
    for name, start in (("queries", "which"), ("corpus", "about")):
        rows = [
            {"_id": one, "text": f"{start} {words[at % 4]} number {at}"}
            for at, one in enumerate(odd)
        ]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for split, of in ids.items():
        lines = [f"{one}\t{one}\t1" for one in of]
        (folder / "qrels" / f"{split}.tsv").write_text(
            "\n".join(["query-id\tcorpus-id\tscore", *lines]) + "\n"
        )
    _, made = written(
        f"beir:{folder}", store, "restrain", "out", ["ids", "tevatron", "beir"], size=5
    )
    trained = {
        one for name in made["sets"] for one in load_from_disk(f"out/{name}/ids")["query_id"]
    }
    assert trained < set(ids["train"]) and len(trained) == 10
    given = SplitFolder.open(Path("out"))
    assert given.queries["query_id"].tolist() == ids["test"] and set(given.gate_ids) < set(
        ids["test"]
    )
    rows = [(one, one, 2.0) for one in ids["test"]] + [(one, "007", 1.0) for one in ids["test"]]
    frame = pd.DataFrame(rows, columns=["qid", "docno", "score"])
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    RunFile.from_frame(frame.rename(columns=COLUMNS)).write_trec(tmp_path / "a.run")
    for end in ("csv", "parquet", "run"):
        values = values_of_run(tmp_path / f"a.{end}", given, ["RR@10"])
        assert values["value"].eq(1).all() and values["query_id"].tolist() == ids["test"]
