"""What a plan costs, said in sentences: which devices for how long, which memory, which disk."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from interextra.data.queries import POOLED
from interextra.models.prices import throughput
from interextra.store.prices import Row, outlook, overview, to_compute
from interextra.store.progress import lasting


class Asked(NamedTuple):
    """For what a plan is priced.

    `gpu`: whose speed, see `throughput`; so many GPUs and cores at once; `price`: of a GPU hour;
    `sample`: passages at random of the cheaper variant, 0: all passages.
    """

    gpu: str
    gpus: int
    cores: int
    price: float = 0.0
    sample: int = 0


def sentences(rows: Mapping[str, Sequence[Row]], asked: Asked, absent_bytes: int) -> list[str]:
    """Return what is to be computed, how long it takes and what it needs.

    Parameters
    ----------
    rows
        Name of each notebook → its rows of `prices.described`.
    absent_bytes
        What `fetch` would put on the disk.
    """
    todo = [row for of_notebook in to_compute(rows).values() for row in of_notebook]
    if not todo:
        return ["All results are there."]
    total = overview(rows).loc["in all"]
    lines = [
        f"To compute: {total['GPU h']:,.1f} hours of a GPU, {total['CPU h']:,.1f} of a core.",
        *_times(todo, asked),
    ]
    if asked.price:
        cost = total["GPU h"] * asked.price
        lines.append(f"At {asked.price:g} a GPU hour it costs {cost:,.0f}.")
    lines.append(f"Memory: {total['RAM GB']:,.0f} GB of RAM for the largest result.")
    lines.append(f"Disk: {total['disk GB']:,.0f} GB of results under outputs/cells.")
    if absent_bytes:
        lines.append(
            f"Disk besides: about {absent_bytes / 1e9:,.0f} GB for the collections and models that "
            "are not here, as downloaded and as they are kept."
        )
    if asked.sample:
        lines.append(
            "Each large collection is cut to its judged passages, "
            f"{POOLED} of the first ones of each test query and {asked.sample:,} at random."
        )
    if total["GPU h"]:
        lines.append(f"Speed of a GPU, {asked.gpu}: {throughput(asked.gpu)['source']}.")
    lines.append(f"Speed of a core: {throughput('cpu')['source']}.")
    return lines


def closing(profile: str) -> list[str]:
    """Return how to read the tables, how to run what they price, and how to price it otherwise."""
    on_slurm = f"snakemake --profile profiles/slurm --config profile={profile}"
    return [
        "What several notebooks need is counted with the first of them; alone GPU h: of a notebook "
        "without the others.",
        f"To run it: `interextra run --profile {profile}`; on a cluster `{on_slurm}`, or job "
        f"arrays by `interextra plan --profile {profile} --sbatch jobs`. A job's limit of time may "
        "be shorter than its training, which goes on from checkpoints (book/cluster.md).",
        "Another device, cluster or price: --gpu, --gpus, --cores, --price. Every result with its "
        "key: --all; one alone: `interextra cell KEY`.",
    ]


def _times(todo: Sequence[Row], asked: Asked) -> list[str]:
    """Return what takes longest, and how long everything takes."""
    ahead = outlook(todo, asked.gpus, asked.cores)
    longest = max(todo, key=lambda row: row["seconds"])
    chain = " → ".join(row["what"].partition(" · ")[0] for row in ahead.path)
    return [
        f"The longest result takes {lasting(longest['seconds'])}: {longest['what']}.",
        f"The longest chain takes {lasting(ahead.path_seconds)}: {chain}.",
        f"With {asked.gpus} GPU and {asked.cores} cores at once everything takes at least "
        f"{lasting(ahead.seconds)}: nothing waits in a queue, nothing fails.",
    ]
