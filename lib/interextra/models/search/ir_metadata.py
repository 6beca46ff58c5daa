"""A TREC run that says where it comes from: a header of comments, as ir_metadata describes it.

Breuer et al., SIGIR 2022, ir-metadata.org: YAML between two marks, each line behind a #, under six
headings: platform, research goal, implementation, method, actor, data. trec_eval 10 and this kit
read lines behind a # as comments; other readers take them for hits, so a run has no header unless
it is asked for.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from interextra.data.queries import Part, Queries
from interextra.data.runs import RunFile
from interextra.models.search.run import Ranking
from interextra.store import Store
from interextra.store.files import scratch, write_aside

BEGIN, END = "ir_metadata.start", "ir_metadata.end"
COMMENT = "#"
SCHEMA = "0.1"
REPOSITORY = "interextra"


def record_of(ranking: Ranking, queries: Queries | Part, store: Store) -> dict[str, Any]:
    """Return what is known of a ranking of one set of queries, under the headings of ir_metadata.

    Parameters
    ----------
    ranking
        A cell that is there; its own provenance says on what it was computed.
    queries
        One of its sets.
    store
        Where it is.
    """
    folder = store[ranking]
    noted = store.noted(folder / "provenance.json")
    platform = noted.get("platform", {})
    implementation = noted.get("implementation", {}).get("source", {})
    hardware = platform.get("hardware", {})
    cpu = {"model": hardware.get("processor", ""), "number of cores": hardware.get("cores", 0)}
    libraries = platform.get("software", {}).get("libraries", {})
    return {
        "schema version": SCHEMA,
        "platform": {
            "hardware": {"cpu": cpu, "device": hardware.get("device", "")},
            "operating system": {"kernel": platform.get("operating system", "")},
            "software": {
                "python": platform.get("software", {}).get("python", ""),
                "libraries": {
                    "python": [f"{name} {libraries[name]}" for name in sorted(libraries)]
                },
            },
        },
        "research goal": {"evaluation": {"question": ranking.title()}},
        "implementation": {
            "executable": {"cmd": f"interextra cell {ranking.key}"},
            "source": {
                "lang": ["python"],
                "repository": implementation.get("repository", REPOSITORY),
                "commit": implementation.get("commit", "unknown"),
            },
        },
        "method": {
            "automatic": True,
            "score ties": "descending score, then doc_id, as trec_eval",
            "retrieval": [_retrieval(ranking)],
        },
        "actor": {"role": "reproducer"},
        "data": _data(ranking, queries),
    }


def _retrieval(ranking: Ranking) -> dict[str, Any]:
    """Return the stage of retrieval: the kind of cell, the recipe, and its key."""
    stage: dict[str, Any] = {"name": type(ranking).__name__, "depth": ranking.depth}
    if ranking.recipe is not None:
        stage["method"] = ranking.recipe.architecture
        stage["parameters"] = ranking.recipe.model_dump(mode="json", exclude_defaults=True)
    if hasattr(ranking, "model"):
        stage["seed"] = ranking.model.seed
    return stage | {"key": ranking.key}


def _data(ranking: Ranking, queries: Queries | Part) -> dict[str, Any]:
    """Return which collection is searched for which queries, and what the model was trained on."""
    source = ranking.source
    data: dict[str, Any] = {
        "test collection": {
            "name": source.spec,
            "topics": queries.name,
            "number of topics": queries.size(),
            "fingerprint": source.fingerprint,
        }
    }
    model = getattr(ranking, "model", None)
    if model is not None:
        name = f"{model.train.name} of {model.train.source.spec}"
        data["training data"] = [{"name": name, "number of queries": model.train.size()}]
    return data


def header(record: Mapping[str, Any]) -> str:
    r"""Return a record as the lines that stand before a run.

    Examples
    --------
    >>> print(header({"actor": {"role": "reproducer"}}), end="")
    # ir_metadata.start
    # actor:
    #   role: reproducer
    # ir_metadata.end
    """
    text = yaml.safe_dump(dict(record), sort_keys=False, allow_unicode=True, width=1000)
    lines = [BEGIN, *text.splitlines(), END]
    return "".join(f"{COMMENT} {line}\n" for line in lines)


def write_described(run: RunFile, path: Path, record: Mapping[str, Any]) -> None:
    """Write a TREC file that begins with a header: aside first, then renamed."""
    with scratch(path.with_name(f"{path.name}.parts")) as folder, write_aside(path) as aside:
        run.write_trec(folder / "hits")
        with open(aside, "wb") as whole, open(folder / "hits", "rb") as hits:
            whole.write(header(record).encode())
            shutil.copyfileobj(hits, whole)
