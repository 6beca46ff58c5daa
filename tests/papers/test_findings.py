"""Findings about the papers: each is counted on files in the authors' formats, and a release that
is otherwise does not agree.
"""

import gzip

import pandas as pd
import pytest

from interextra.data.runs import RunFile
from interextra.data.trec import read_qrels
from interextra.measures import pool
from interextra.papers import findings, published, released, releases
from interextra.store.errors import InputError


def qrels_of(*query_ids, doc_id="1"):
    rows = [(query_id, doc_id, 1) for query_id in query_ids]
    return pd.DataFrame(rows, columns=["query_id", "doc_id", "relevance"])


@pytest.fixture
def folder(tmp_path):
    """Both releases in miniature, and the dev judgements: queries 1 to 9 train, 90 and 91 dev."""
    sets = {
        "14k": (["1"], ["2"]),
        "45k": (["1", "3"], ["2", "4"]),
        "200k": (["1", "3", "5"], ["2", "4", "6", "8"]),
    }
    release = tmp_path / "extrapolate-eval" / "restrain_files" / "msmarco-passage"
    for size, (inside, outside) in sets.items():
        repeated = inside[-1:] if size == "200k" else []
        released.write_qrels(
            release / size / "interpolate.train-qrel.txt", qrels_of(*inside, *repeated)
        )
        released.write_qrels(release / size / "extrapolate.train-qrel.txt", qrels_of(*outside))
    shifts = tmp_path / "ms-marco-shift"
    for shift, files in releases.CLUSTERS.items():
        query_ids = ["90", "91"] if shift == "length" else ["1", "2", "7"]
        for file in files.values():
            with_text = query_ids[:2] if file == "2" else query_ids
            texts = pd.DataFrame({"query_id": with_text, "text": "what  is it"})
            released.write_shift(shifts, file, texts, qrels_of(*query_ids))
    dev = tmp_path / findings.DEV_QRELS
    dev.parent.mkdir()
    dev.write_text("90 0 1 1\n91 0 1 1\n")
    return tmp_path


def public(system, test_set, ranked, grades, folder):
    """A public run: a gzipped file of TREC, as they are published."""
    lines = [
        f"{query_id} Q0 {doc_id} {rank} {-rank} {system}"
        for query_id, doc_ids in ranked.items()
        for rank, doc_id in enumerate(doc_ids, 1)
    ]
    path = folder / f"{system}.{test_set}.res.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    rows = [(query_id, *judged) for query_id, of in grades.items() for judged in of.items()]
    qrels = pd.DataFrame(rows, columns=["query_id", "doc_id", "relevance"])
    return findings.PublicRun(test_set, system, RunFile.read(path), qrels)


def test_sets_of_a_release_are_counted(folder):
    sizes = releases.restrain_sizes(folder / "extrapolate-eval").set_index(["size", "regime"])
    assert sizes.loc[("200k", "interpolation")].tolist() == [3, 4, 1]
    assert sizes.loc[("200k", "extrapolation")].tolist() == [4, 4, 0]
    assert sizes["repeated_rows"].sum() == 1
    known = releases.restrain_queries(folder / "extrapolate-eval")
    assert known == {"1", "2", "3", "4", "5", "6", "8"}


def test_evaluation_queries_are_found_among_training_and_dev_queries(folder):
    train_ids = releases.restrain_queries(folder / "extrapolate-eval")
    sources = releases.evaluation_sources(folder / "ms-marco-shift", train_ids, {"90", "91"})
    assert len(sources) == 10
    by_cluster = sources.set_index("cluster").drop(columns="shift")
    assert by_cluster.loc["C2"].tolist() == [3, 2, 0, 1]  # 7 is not known, and has no text
    assert by_cluster.loc["who"].tolist() == [3, 2, 0, 0]
    assert by_cluster.loc["long"].tolist() == [2, 0, 2, 0]


def test_findings_on_files_in_miniature(folder):
    found = findings.checked_on_files(folder, [])
    assert found.columns.tolist() == list(findings.Check._fields)
    assert found["finding"].tolist() == ["F3", "F3", "F7", "F7"]
    sizes, repeats, sources, texts = found["computed"]
    assert "extrapolation sets 1 / 2 / 4, of the interpolation sets 1 / 2 / 3" in sizes
    assert "1 in the interpolation set of 200k, 0 in the extrapolation set, 0 in" in repeats
    assert "67 % / 67 % / 0 % are in the ReSTrain sets" in sources
    assert "0 % / 0 % / 100 % are dev queries" in sources
    assert "1 of 28 queries with judgements have no text (C2: 1)" in texts
    assert found["agrees"].tolist() == [False, False, True, True]  # 4 queries are not 200k


def test_a_release_that_is_otherwise_does_not_agree(folder):
    shifts = folder / "ms-marco-shift"
    queries, _, _ = released.read_shift(shifts, "2")
    released.write_shift(shifts, "2", queries, qrels_of("1", "2"))
    queries, _, _ = released.read_shift(shifts, "long")
    released.write_shift(shifts, "long", queries, qrels_of("90", "91", "5"))
    found = findings.checked_on_files(folder, [])
    sources, texts = found["agrees"][2:]
    assert not sources and texts
    assert "(long: 1)" in found["computed"].iloc[-1]


def test_a_missing_release_is_named(tmp_path):
    with pytest.raises(InputError, match=r"14k/interpolate.train-qrel.txt: no such file"):
        findings.checked_on_files(tmp_path, [])


def test_sizes_agree_where_the_extrapolation_sets_round_to_what_is_printed():
    rows = [(size, "extrapolation", 1000 * int(size[:-1]) - 300) for size in published.SIZES]
    rows += [(size, "interpolation", 1000 * int(size[:-1]) - 900) for size in published.SIZES]
    sizes = pd.DataFrame(rows, columns=["size", "regime", "queries"])
    assert findings._sizes_checked(sizes).agrees
    other = sizes.assign(queries=sizes["queries"].mask(sizes["queries"] == 13_700, 13_400))
    assert not findings._sizes_checked(other).agrees
    turned = sizes.replace({"extrapolation": "interpolation", "interpolation": "extrapolation"})
    assert not findings._sizes_checked(turned).agrees


def test_recall_counts_from_each_grade_over_the_queries_of_both_years(tmp_path):
    first = public("BM25", "dl19", {"a": ["x", "y"]}, {"a": {"x": 1, "y": 2, "z": 2}}, tmp_path)
    second = public("BM25", "dl20", {"b": ["x"]}, {"b": {"x": 1, "y": 2}}, tmp_path)
    other = public("BM25", "TREC-COVID 1", {"c": ["x"]}, {"c": {"x": 2}}, tmp_path)
    unknown = public("ANCE", "dl19", {"a": ["x"]}, {"a": {"x": 2}}, tmp_path)
    recall = findings.recall_by_grade([first, second, other, unknown])
    assert set(recall["model"]) == {"BM25"} and set(recall["n_queries"]) == {2}
    by_measure = recall.set_index("measure")
    values = by_measure.loc[findings.RECALL, "value"]
    assert values.tolist() == pytest.approx([(2 / 3 + 1 / 2) / 2, 1 / 4, 0])
    assert (
        by_measure.loc[findings.RECALL, ["low", "high"]].to_numpy().tolist() == [[0.534, 0.541]] * 3
    )
    assert by_measure.loc["nDCG@10", ["low", "high"]].tolist() == [0.485, 0.490]
    assert by_measure.loc["R(rel=2)@100", "distance"] == pytest.approx(0.534 - 1 / 4)
    [check] = findings._recall_checked(recall)
    assert not check.agrees and "nearest from grade 1" in check.computed
    assert "0.583 / 0.250 / 0.000, printed 0.534 to 0.541" in check.computed
    assert "(off by 0.042 / 0.284 / 0.534)" in check.computed


def test_a_hole_is_a_passage_that_no_topic_has_judged(tmp_path):
    ranked = {"a": [*"pqrstuvwxy"], "b": [*"qpr"]}
    grades = {"a": {"p": 2}, "b": {"q": 0}, "c": {"r": 1}}
    run = public("ours", "toy", ranked, grades, tmp_path)
    holes = pool.holes(run.run, run.qrels, 10)
    assert holes.to_dict() == {"a": 0.7, "b": 0.0, "c": 0.0}  # p, q, r are judged for some topic
    shares = findings.unjudged([run])
    assert shares["of_any_topic"].item() == pytest.approx(0.7 / 3)
    assert shares["of_topic"].item() == pytest.approx(1 - (1 / 10 + 1 / 3) / 3)
    assert findings._unjudged_checked(shares).agrees
    alone = public("one", "toy", {"a": ranked["a"]}, {"a": grades["a"]}, tmp_path)
    assert not findings._unjudged_checked(findings.unjudged([alone])).agrees


def test_checks_are_in_the_order_of_the_findings():
    on_tables = findings.checked_on_tables()
    assert on_tables["agrees"].tolist() == [True, True]
    assert on_tables["computed"].str.split(" printed").str[0].tolist() == ["66 of 66", "40 of 40"]
    on_files = on_tables.assign(finding=["F12", "F3"])
    both = findings.checked(on_files, on_tables)
    assert both["finding"].tolist() == ["F3", "F8", "F8", "F12"]
    assert findings.checked(pd.DataFrame(), on_tables).equals(on_tables)


def test_released_sets_have_the_known_sizes(real_data):
    sizes = releases.restrain_sizes(real_data / "extrapolate-eval")
    known = releases.KNOWN["ReSTrain"]
    for row in sizes.to_dict("records"):
        facts = known[f"{releases.RELEASED_REGIMES[row['regime']]} {row['size']}"]
        counted = [row["queries"], row["rows"], row["repeated_rows"]]
        assert counted == [facts["queries"], facts["rows"], facts["repeated rows"]], row
    assert findings._sizes_checked(sizes).agrees and findings._repeats_checked(sizes).agrees


def test_released_evaluation_sets_are_training_queries_but_for_length(real_data):
    train_ids = releases.restrain_queries(real_data / "extrapolate-eval")
    dev_ids = set(read_qrels(real_data / findings.DEV_QRELS)["query_id"])
    sources = releases.evaluation_sources(real_data / "ms-marco-shift", train_ids, dev_ids)
    by_cluster = sources.set_index("cluster")
    assert by_cluster["queries"].to_dict() == {
        **{"C0": 6597, "C1": 5962, "C2": 6257, "C3": 5868, "C4": 6568},
        **{"wha": 6496, "how": 6497, "who": 6494, "short": 3434, "long": 3546},
    }
    lacking = by_cluster["without_text"]
    assert lacking[lacking > 0].to_dict() == {"C0": 2, "C1": 2, "C2": 2, "C4": 2}
    check = findings._sources_checked(sources, len(train_ids))
    assert check.agrees and len(train_ids) == 394_250
    assert findings._texts_checked(sources).agrees


def test_public_runs_fit_the_printed_recall_from_grade_2(real_data):
    runs = real_data / "runs" / "dl-passage" / "colbert-prf-appendix"
    public_runs = []
    for year in (19, 20):
        qrels = read_qrels(real_data / "msmarco" / f"qrels.dl{year}-passage.txt")
        for system, file in {"BM25": "BM25", "BM25, BERT": "bm25_VBERT"}.items():
            run = RunFile.read(runs / f"{file}.20{year}.res.gz")
            public_runs.append(findings.PublicRun(f"dl{year}", system, run, qrels))
    recall = findings.recall_by_grade(public_runs)
    values = recall.pivot(index="model", columns="measure", values="value").round(4)
    measures = ["nDCG@10", "R(rel=1)@100", "R(rel=2)@100"]
    assert values.loc["BM25", measures].tolist() == [0.4874, 0.4770, 0.5414]
    assert values.loc["Reranker", measures].tolist() == [0.6777, 0.5735, 0.6697]
    bm25, reranker = findings._recall_checked(recall)
    assert bm25.agrees and reranker.agrees  # it excludes grade 1
    assert "nearest from grade 3 (off by 0.066 / 0.006 / 0.002)" in reranker.computed
