"""Zhan et al. (CIKM 2022): what notebooks 00 to 03 and 05 compute, and our numbers beside the paper."""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from interextra.data.queries import Part, Queries
from interextra.evaluation import measures as evaluation
from interextra.experiments.plans import (
    Plan,
    design,
    plans,
    pool,
    query_vectors,
    systems,
    tests,
    training_log,
    trainings,
    untrained,
)
from interextra.ground.cells import Store
from interextra.ground.effects import interval, ratio
from interextra.models.chain import model_of
from interextra.models.recipe import FirstStage, Recipe, make_recipe
from interextra.models.run import Run
from interextra.overlap.annotation import Candidates
from interextra.papers import published
from interextra.papers.claims import gate, judged
from interextra.papers.releases import SIZES, real_dev_vectors, real_vectors
from interextra.splits.restrain import BANDS, ReSTrain
from interextra.splits.resttest import ReSTTest, constant, macro, sides
from interextra.splits.similarity import nearest

REGIMES = ("interpolation", "extrapolation")
TEST_SETS = {"TREC DL 2019": "dl19", "TREC DL 2020": "dl20", "MS MARCO dev": "dev"}
ALONE = "its interpolation"  # what a finding about one system compares it with
INTERACTION, REPRESENTATION = ("Reranker", "ColBERT"), ("SPLADE", "DR (base)")  # as §5.1 groups the systems


@plans("00_start_here")
def start_here(p: dict) -> Plan:
    """One query's way needs one dense model and BM25. `design`: model, run."""
    runs = {label: run_of(p, made, pool(p), p["seed"], p["test_splits"]) for label, made in systems(p).items()}
    return Plan(design=design([{"model": label, "run": run} for label, run in runs.items()]))


@plans("01_overlap_annotation_analysis")
def overlap(p: dict) -> Plan:
    """Candidates by BM25 and by embedding; with `real_msmarco` also for the real queries."""
    plan = Plan(vectors=query_vectors(p, tests(p, p["test_splits"])))
    plan.candidates = Candidates(vectors=plan.vectors, k=p["candidates"])
    if p["real_msmarco"]:
        plan.real = Candidates(vectors=real_vectors(p["real_encoder"]), k=p["candidates"])
    return plan


@plans("02_restrain")
def restrain(p: dict) -> Plan:
    """Each system in both regimes at each size; of the trained ones also what takes size and distance apart.

    `design`: n_train, model, regime, seed, run. `grid`: the trained systems on the random sets of `banded`, of three
    bands of distance (n_train, band, draw, model, seed, run); without `grid_draws` both are empty. `draws`: training
    queries chosen for a few test queries at a time, as the paper has it (draw, n_train, model, regime, run), one
    training per draw; empty without `test_draws`.
    """
    split, made, rows, grid, few = sets_of(p), systems(p), [], [], []
    options = {"sizes": tuple(p["grid_sizes"]), "draws": p["grid_draws"], "seed": p["seed"]}
    banded = ReSTrain(vectors=split.vectors, match=p["match"], **options) if p["grid_draws"] else None
    for (model, one), size, regime in itertools.product(made.items(), p["sizes"], REGIMES):
        for seed in trainings(p, one):
            run = run_of(p, one, Part(of=split, part=f"{regime}-{size}"), seed, p["test_splits"])
            rows.append({"n_train": size, "model": model, "regime": regime, "seed": seed, "run": run})
    short = systems(p | {"steps": p["grid_steps"] or p["steps"]}).items()
    trained = [(model, one) for model, one in short if one.training_steps(1)]
    places = itertools.product(trained, p["grid_sizes"], BANDS, range(p["grid_draws"]), p["grid_seeds"])
    for (model, one), size, band, draw, seed in places:
        run = run_of(p, one, Part(of=banded, part=f"{band}-{size}-{draw}"), seed, p["test_splits"])
        grid.append({"n_train": size, "band": band, "draw": draw, "model": model, "seed": seed, "run": run})
    for draw in range(1, p["test_draws"] + 1):
        test = tuple(
            part.model_copy(update={"limit": p["test_size"], "seed": draw}) for part in tests(p, p["draw_splits"])
        )
        drawn = ReSTrain(vectors=query_vectors(p, test), sizes=(p["draw_train"],), match=p["match"])
        for (model, one), regime in itertools.product(made.items(), REGIMES):
            trained_on = Part(of=drawn, part=f"{regime}-{p['draw_train']}")
            run = Run(model=model_of(one, trained_on, draw), queries=test, depth=p["depth"])
            few.append({"draw": draw, "n_train": p["draw_train"], "model": model, "regime": regime, "run": run})
    frames = {"design": design(rows), "grid": pd.DataFrame(grid), "draws": pd.DataFrame(few)}
    real = {encoder: real_vectors(encoder) for encoder in p["real_encoders"] if p["real_msmarco"]}
    cells = {"vectors": split.vectors, "split": split, "banded": banded if grid else None, "real": real}
    return Plan(measures=measures(p, "measures"), **cells, **frames)


def measures(p: dict, name: str) -> list[str]:
    """The measures that a parameter names; R@100 counts from the parameter `recall_relevance` on."""
    rel = f"(rel={p['recall_relevance']})" if p["recall_relevance"] > 1 else ""
    return [f"R{rel}@100" if measure == "R@100" else measure for measure in p[name]]


def sets_of(p: dict) -> ReSTrain:
    vectors, sizes = query_vectors(p, tests(p, p["test_splits"])), tuple(p["sizes"])
    return ReSTrain(vectors=vectors, sizes=sizes, match=p["match"], seed=p["seed"])


def buckets_of(p: dict, test_splits: list[str]) -> ReSTTest:
    vectors, options = query_vectors(p, tests(p, test_splits)), ("k", "fold_size", "normalise")
    return ReSTTest(vectors=vectors, seed=p["seed"], **{name: p[name] for name in options if name in p})


def run_of(p: dict, made: Recipe, train: Queries | Part, seed: int, test_splits: list[str]) -> Run:
    return Run(model=model_of(made, train, seed), queries=tests(p, test_splits), depth=p["depth"])


@plans("03_resttest")
def resttest(p: dict) -> Plan:
    """Each system without each bucket, each seed. `design`: model, left_out, seed, run."""
    split, rows = buckets_of(p, p["test_splits"]), []
    for (model, made), bucket in itertools.product(systems(p).items(), split.names):
        for seed in trainings(p, made):
            run = run_of(p, made, Part(of=split, part=f"without-{bucket}"), seed, p["test_splits"])
            rows.append({"model": model, "left_out": bucket, "seed": seed, "run": run})
    real = {encoder: real_vectors(encoder) for encoder in p["real_encoders"] if p["real_msmarco"]}
    dev = {encoder: real_dev_vectors(encoder) for encoder in real}
    return Plan(vectors=split.vectors, split=split, design=design(rows), real=real, real_dev=dev)


@plans("05_architecture_comparison")
def architectures(p: dict) -> Plan:
    """Five systems in both protocols: frames `restrain` and `resttest` as in notebooks 02 and 03.

    `first_restrain`, `first_resttest`: the ranking that each reranker reads, under the reranker's label. `learning`:
    trained, model, seed, run, on all training queries and untrained; empty where it is not asked for. BM25 is its own
    untrained start.
    """
    sets, buckets, made, learning = sets_of(p), buckets_of(p, p["resttest_splits"]), systems(p), []
    for (model, one), trained in itertools.product(made.items(), (True, False) if p["learning"] else ()):
        run = run_of(p, one if trained else untrained(one), pool(p), p["seed"], p["resttest_splits"])
        learning.append({"trained": trained, "model": model, "seed": p["seed"], "run": run})
    firsts = {model: first_stage(one) for model, one in made.items() if one.architecture == "reranker"}
    frames = {name: design(rows) for name, rows in both_protocols(p, sets, buckets, made).items()}
    for name, rows in both_protocols(p, sets, buckets, firsts).items():
        frames[f"first_{name}"] = pd.DataFrame(rows)
    frames |= {"learning": pd.DataFrame(learning)}
    return Plan(sets=sets, buckets=buckets, measures=measures(p, "restrain_measures"), **frames)


def both_protocols(p: dict, sets: ReSTrain, buckets: ReSTTest | None, made: Mapping[str, Recipe]) -> dict[str, list]:
    """Rows of a design of each system in both protocols: restrain (n_train, model, regime, seed, run) and resttest
    (model, left_out, seed, run; none without buckets)."""
    restrained, tested = [], []
    for model, one in made.items():
        for seed in trainings(p, one):
            for size, regime in itertools.product(p["trained_sizes"], REGIMES):
                run = run_of(p, one, Part(of=sets, part=f"{regime}-{size}"), seed, p["test_splits"])
                restrained.append({"n_train": size, "model": model, "regime": regime, "seed": seed, "run": run})
            for bucket in buckets.names if buckets else ():
                run = run_of(p, one, Part(of=buckets, part=f"without-{bucket}"), seed, p["resttest_splits"])
                tested.append({"model": model, "left_out": bucket, "seed": seed, "run": run})
    return {"restrain": restrained, "resttest": tested}


def first_stage(reranker: Recipe) -> Recipe:
    """BM25 as a reranker reads it."""
    options = reranker.model_dump(include=set(FirstStage.model_fields))
    return make_recipe(options | {"architecture": "bm25"}, "first stage")


def floors(plan: Plan, names: Mapping[str, str], store: Store, seed: int) -> pd.DataFrame:
    """Values in both regimes of each reranker and of other orders of the passages that it reads.

    Parameters
    ----------
    plan : of `architectures`, with a reranker; of ReSTrain its largest size.
    names : protocol (ReSTrain, ReSTTest) → a measure.
    seed : of the random orders.

    Returns
    -------
    DataFrame[protocol, reranker, model, regime, seed, query_id, unit, measure, value, …] : `model` says whose order it
        is: random, BM25's (of the first stage as the reranker reads it) or the reranker's. Who is below a random order
        has learnt that right answers are wrong.
    """
    found = []
    for protocol, name in names.items():
        first, runs = (getattr(plan, f"{which}{protocol.lower()}") for which in ("first_", ""))
        runs = runs[runs["model"].isin(first["model"])]
        if protocol == "ReSTrain":
            first, runs = (frame[frame["n_train"] == frame["n_train"].max()] for frame in (first, runs))
        once = runs[runs["seed"].isin(first["seed"])]  # all trainings read the same passages
        depths = once["run"].map(lambda run: run.model.recipe.rerank_depth)
        orders = [evaluation.in_random_order(part, store, [name], depth, seed) for depth, part in once.groupby(depths)]
        made = {"random order of the same candidates": pd.concat(orders)}
        made |= {"BM25's order of them": evaluation.values(first, store, [name])}
        made |= {"the reranker's order": evaluation.values(runs, store, [name])}
        parts = [part.rename(columns={"model": "reranker"}).assign(model=order) for order, part in made.items()]
        values = pd.concat(parts, ignore_index=True)
        if protocol == "ReSTTest":
            values = in_regimes(values.assign(stratum=values["query_id"].map(plan.buckets.strata(store))))
        found.append(values.assign(protocol=protocol))
    return pd.concat(found, ignore_index=True)


def in_regimes(values: pd.DataFrame) -> pd.DataFrame:
    """Values of a ReSTTest design with the column `regime`: extrapolation for the model without the query's bucket."""
    values = sides(values)
    return values.assign(regime=values["side"].map({"in": REGIMES[0], "out": REGIMES[1]}))


def averages(values: pd.DataFrame) -> pd.DataFrame:
    """Values of a ReSTTest design in regimes, three times, told apart by `average`.

    micro: every query counts the same. macro: every bucket does. constant: the macro average as if no training made a
    difference, which is what comes from the weights alone. macro less constant is what comes from the models.
    """
    made = {"micro": values, "macro": macro(values)}
    made["constant"] = macro(constant(values))
    return pd.concat([in_regimes(part).assign(average=name) for name, part in made.items()], ignore_index=True)


def fair(table: pd.DataFrame) -> pd.DataFrame:
    """Deltas of a table of `effects` as verdicts need them, for `published.beside`.

    Returns the rows with `comparable`, whether the system beats BM25 in domain (`claims.gate`), and with low and high
    of intervals that hold together over the comparable rows. Of `averages` macro is less constant, which has no row.
    """
    rows = table.assign(drawn=list(table.drawn()), comparable=gate(table))
    if "average" in rows:
        micro, macro, constant = (rows[rows["average"] == name] for name in ("micro", "macro", "constant"))
        left = {name: macro[name].to_numpy() - constant[name].to_numpy() for name in ("delta", "drawn")}
        rows = pd.concat([micro, macro.assign(average="macro less constant", **left)], ignore_index=True)
    columns = zip(rows["delta"], rows["drawn"], rows["comparable"], strict=True)
    said = [{"estimate": delta, "draws": drawn, "gate": passes} for delta, drawn, passes in columns]
    ends = judged([{"finding": "a loss", "kind": "below"} | row for row in said])
    return rows.drop(columns="drawn").assign(low=ends["low"].to_numpy(), high=ends["high"].to_numpy())


def grid_runs(values: pd.DataFrame, sets: pd.DataFrame) -> pd.DataFrame:
    """A row per run and measure of the values of a `grid`.

    Returns DataFrame[model, measure, set, n_train, band, draw, seed, nearest_similarity, value, delta] : similarity is
    the mean cosine of a set's queries to their nearest test query (`sets`: sets.csv of the split), value the mean over
    the test queries, delta its relative difference from the mean of the largest sets of the nearest band.
    """
    labels = ["model", "measure", "n_train", "band", "draw", "seed"]
    runs = values.groupby(labels, sort=False)["value"].mean().reset_index()
    names = [f"{row.band}-{row.n_train}-{row.draw}" for row in runs.itertuples()]
    runs.insert(2, "set", names)
    similarity = runs["set"].map(sets.set_index("set")["mean_max_similarity"])
    best = runs["value"].where((runs["band"] == BANDS[0]) & (runs["n_train"] == runs["n_train"].max()))
    best = best.groupby([runs["model"], runs["measure"]]).transform("mean")
    runs.insert(runs.columns.get_loc("value"), "nearest_similarity", similarity)
    return runs.assign(delta=ratio(runs["value"], best) - 1)


def size_and_distance(runs: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """What the size of a training set and its distance from the test queries do: least squares of delta on both.

    Parameters
    ----------
    runs : of `grid_runs`.
    by : labels that have a regression of their own.

    Returns
    -------
    DataFrame[*by, term, delta, low, high, n_sets, n_runs] : what a doubling of the training queries and what 0.1 more
        similarity add to delta, each in the middle of the other, and what both at once add beyond that. Trainings on
        one set are not independent: errors are clustered by set, with Student's distribution over the sets.
    """
    from statsmodels.api import OLS, add_constant

    rows = []
    for key, part in runs.groupby(list(by), sort=False):
        doublings, nearer = (x - x.mean() for x in (np.log2(part["n_train"]), 10 * part["nearest_similarity"]))
        known = {"twice the training queries": doublings, "0.1 more similarity": nearer}
        known["both at once, beyond their sum"] = doublings * nearer
        errors = {"cov_type": "cluster", "cov_kwds": {"groups": pd.factorize(part["set"])[0]}, "use_t": True}
        fitted = OLS(part["delta"], add_constant(pd.DataFrame(known))).fit(**errors)
        counts = {"n_sets": part["set"].nunique(), "n_runs": len(part)}
        for term, (low, high) in fitted.conf_int().loc[list(known)].iterrows():
            row = {"term": term, "delta": fitted.params[term], "low": low, "high": high}
            rows.append(dict(zip(by, key, strict=True)) | row | counts)
    return pd.DataFrame(rows)


def losses(values: pd.DataFrame) -> pd.DataFrame:
    """Interpolation less extrapolation of each query, float[query_id × model]; of values of one size and measure."""
    means = values.pivot_table(index="query_id", columns=["regime", "model"], values="value", sort=False)
    return means[REGIMES[0]] - means[REGIMES[1]]


def nearest_queries(split: ReSTrain, size: int, store: Store) -> pd.DataFrame:
    """The nearest training query of each test query in both sets: query_id, query, regime, similarity, nearest."""
    (train, test), pool, found = split.vectors.read(store), split.pool.frame(store), []
    queries = pd.concat([part.frame(store)[["query_id", "text"]] for part in split.vectors.test], ignore_index=True)
    for regime in REGIMES:
        inside = np.flatnonzero(pool["query_id"].isin(split.sets(store)[f"{regime}-{size}"]))
        cosines, at = nearest(test, train[inside], k=1)
        texts = pool["text"].to_numpy()[inside[at[:, 0]]]
        found.append(queries.assign(regime=regime, similarity=cosines[:, 0], nearest=texts))
    return pd.concat(found, ignore_index=True).rename(columns={"text": "query"})


def training_pairs(design: pd.DataFrame, store: Store) -> list[int]:
    """How many scores of a query and a passage the loss of each run has seen; 0 for BM25."""
    steps = [(run.model.recipe, training_log(run, store)["steps"]) for run in design["run"]]
    return [recipe.scored_pairs(n) if n else 0 for recipe, n in steps]


def loss_curves(design: pd.DataFrame, store: Store) -> pd.DataFrame:
    """Training loss of the trained runs of a design: its labels, step, loss (the mean since the step before)."""
    parts = []
    for labels, run in zip(design.drop(columns="run").to_dict("records"), design["run"], strict=True):
        curve = pd.DataFrame(training_log(run, store).get("loss", []), columns=["step", "loss"])
        parts.append(curve.assign(**labels))
    return pd.concat(parts, ignore_index=True)


def findings(table: pd.DataFrame, by: Sequence[str], margin: float) -> pd.DataFrame:
    """What §5.1.3 says of each system, and of each pair of an interaction-based and a representation-based one.

    Parameters
    ----------
    table : deltas of `effects`, by `by` and model, with the column comparable (`claims.gate`): nothing is said of a
        system that is not better than BM25 in domain, since it has little to lose.
    margin : a delta within plus or minus this is no loss; the paper says "almost".

    Returns
    -------
    DataFrame[*by, model, against, finding, estimate, low, high, verdict, …], see `papers.claims.judged`: the intervals
        hold together. The estimate is the delta of a model (`against` its interpolation), or how far it lies above that
        of another.
    """
    found = []
    for key, part in table.groupby(list(by), sort=False):
        delta, drawn = (dict(zip(part["model"], of, strict=True)) for of in (part["delta"], part.drawn()))
        passing = set(part.loc[part["comparable"], "model"])
        said = [(f"{model}: no loss beyond {100 * margin:g} %", "kept", model) for model in ("BM25", *INTERACTION)]
        said += [(f"{model}: a loss", "below", model) for model in REPRESENTATION]
        pairs = itertools.product(INTERACTION, REPRESENTATION)
        said += [(f"{first}: a smaller loss than {second}", "above", first, second) for first, second in pairs]
        for finding, kind, first, *second in said:
            if {first, *second} <= delta.keys():
                estimate, apart = (of[first] - sum(of[name] for name in second) for of in (delta, drawn))
                row = dict(zip(by, key, strict=True)) | {"model": first, "against": (*second, ALONE)[0]}
                row |= {"finding": finding, "estimate": estimate, "draws": apart, "kind": kind, "margin": margin}
                row |= part.loc[part["model"].isin({first, *second}), ["n_queries", "n_trainings"]].min().to_dict()
                found.append(row | {"gate": {first, *second} <= passing})
    return judged(found)


def in_words(found: pd.DataFrame, titles: Mapping[str, str], margin: float) -> tuple[list[str], str]:
    """`findings` of one setting per protocol as sentences, one per protocol and one on pairs; and which pairs are open.

    `titles`: protocol → what its sentence begins with.
    """
    percent = 100 * found[["estimate", "low", "high"]]
    ends = [f" {effect:+.1f} % [{low:+.1f}, {high:+.1f}]" for effect, low, high in percent.itertuples(index=False)]
    closed = found["verdict"] == "not comparable"
    states = {
        "a loss": ~closed & (found["high"] < 0),
        f"no loss beyond {100 * margin:g} %": ~closed & (found["low"] > -margin),
    }
    states |= {
        "open, a loss is neither shown nor excluded": ~closed,
        "not comparable, as not shown to be better than BM25": closed,
    }
    found = found.assign(state=np.select(list(states.values()), list(states), ""), text=found["model"])
    found["text"] += np.where(closed, "", ends)
    pairs, sentences = found[(found["against"] != ALONE) & ~closed], []
    for protocol, part in found[found["against"] == ALONE].groupby("protocol", sort=False):
        texts = part.groupby("state")["text"].agg(", ".join)
        parts = [f"{texts[state]}: {state}" for state in states if state in texts]
        sentences.append(f"{titles[protocol]}: {'; '.join(parts)}.")
    sure, unsure = pairs[pairs["verdict"] != "not shown"], pairs[pairs["verdict"] == "not shown"]
    shown = [f"{row.finding} ({row.protocol}) {row.verdict}" for row in sure.itertuples()]
    sentences.append(f"Between two systems: {'; '.join(shown) or 'no difference is shown'}.")
    sentences[-1] += " All these intervals hold together with 95 %."
    where = unsure.groupby(["model", "against"], sort=False)["protocol"].agg(", ".join)
    named = [f"{first} or {second} ({protocols})" for (first, second), protocols in where.items()]
    return sentences, f"who of two loses less: {'; '.join(named)}; " if named else ""


def kendall(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Kendall's tau-a of scores float[..., systems]: 1 is the same order, tied systems count as neither.

    >>> kendall(np.array([0.1, 0.2, 0.3]), np.array([0.1, 0.3, 0.2])).round(3).item()
    0.333
    """
    signs = [np.sign(side[..., :, None] - side[..., None, :]) for side in (first, second)]
    return ratio((signs[0] * signs[1]).sum(axis=(-1, -2)), first.shape[-1] * (first.shape[-1] - 1))


def rank_correlation(table: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """The order of the systems in both regimes, a row a group: *by, tau, low, high, interpolation, extrapolation."""
    rows = []
    for key, part in table.groupby(list(by), sort=False):
        tau = kendall(*(part[regime].to_numpy() for regime in REGIMES)).item()
        low, high = interval(kendall(part.drawn("first").T, part.drawn("second").T))
        orders = {r: " > ".join(part.sort_values(r, ascending=False, kind="stable")["model"]) for r in REGIMES}
        rows.append(dict(zip(by, key, strict=True)) | {"tau": tau, "low": low, "high": high} | orders)
    return pd.DataFrame(rows)


def published_deltas() -> pd.DataFrame:
    """Δ of Tables 6 and 7: protocol, published_n_train, model, measure, scaled, rounding.

    BM25 was printed once, at 14k: it stands at every size.
    """
    six, seven = (published.load("zhan", number).query("regime == 'delta'") for number in (6, 7))
    bm25 = [six[six["model"] == "BM25"].assign(n_train=size) for size in SIZES[1:]]
    both = [pd.concat([six, *bm25]).assign(protocol="ReSTrain"), seven.assign(protocol="ReSTTest", n_train="all")]
    return pd.concat(both, ignore_index=True).rename(columns={"n_train": "published_n_train"})


def nearest_share(sizes: Sequence[int], n_train: int) -> dict[int, str]:
    """Training size → the published size (14k, 45k, 200k of 503k) whose share of all training queries is nearest.

    >>> nearest_share([112, 1600], n_train=4000)
    {112: '14k', 1600: '200k'}
    """
    shares = {name: int(name[:-1]) / 503 for name in SIZES}
    return {size: min(shares, key=lambda name: abs(np.log(size / n_train / shares[name]))) for size in sizes}


def published_overlap(table: int) -> pd.DataFrame:
    """Table 1 or 2 in the form of our overlap tables: test_set, label, n, percent, source."""
    frame = published.load("zhan", table)
    n = (frame["value"] / 100 * frame["n_queries"]).round().astype(int)
    columns = {"test_set": frame["collection"].map(TEST_SETS), "label": frame["row"].str.split().str[0].str.lower()}
    return pd.DataFrame(columns | {"n": n, "percent": frame["value"], "source": "published"})


def beside_table_3(measured: pd.DataFrame) -> pd.DataFrame:
    """Our label overlap with the published percentages of DL19 and DL20 beside it: the columns of label_overlap.csv."""
    frame, on = published.load("zhan", 3), ["test_set", "relevance_threshold"]
    level = frame["row"].str.extract(r"(\d)")[0].astype(int)
    columns = [frame["collection"].map(TEST_SETS), level, frame["value"]]
    theirs = pd.DataFrame(dict(zip([*on, "published_percent"], columns, strict=True)))
    columns = [*on, "min_shared", "n_queries", "n_overlapping", "percent", "low", "high"]
    return measured[columns].merge(theirs, how="left", on=on)


def table_4(pairs: pd.DataFrame, train: pd.DataFrame) -> pd.DataFrame:
    """The published duplicates: is the training query among ours, and at which rank does each method find it?

    Parameters
    ----------
    pairs : candidates (test_query, train_query, bm25_rank, embedding_rank; rank 0: not found).
    train : the training queries at hand, with text.
    """
    texts = ["test_query", "train_query"]
    twins = published.load("zhan", 4).pivot(index="pair", columns="column", values="text")
    twins = twins.set_axis(texts[::-1], axis=1)[texts]
    known = twins["train_query"].str.lower().isin(train["text"].str.strip().str.lower())
    found = pairs[[*texts, "bm25_rank", "embedding_rank"]]
    found = found.assign(**{name: found[name].str.strip().str.lower() for name in texts}).drop_duplicates(texts)
    return twins.assign(in_our_training_queries=known).merge(found, how="left", on=texts)
