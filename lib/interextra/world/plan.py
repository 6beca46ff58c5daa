"""Which intents are held out of training, so that the overlap of test with training queries comes
out as asked.
"""

from collections import Counter, defaultdict
from random import Random

from interextra.store.errors import InputError
from interextra.world.templates import pick, shuffled

# Zhan et al., Tables 1 and 2
SHARES = {
    "dl19": {"entity": [0.63, 0.30, 0.07], "intent": [0.51, 0.28, 0.21]},
    "dl20": {"entity": [0.54, 0.39, 0.07], "intent": [0.37, 0.22, 0.41]},
    "dev": {"entity": [0.45, 0.51, 0.04], "intent": [0.34, 0.19, 0.47]},
}
SHARES["graded"] = SHARES["dl20"]


def whole(shares: list[float], n: int) -> list[int]:
    """Shares as counts that sum to `n` (largest remainders).

    >>> whole([.63, .30, .07], 43)
    [27, 13, 3]
    """
    counts = [int(share * n + 1e-9) for share in shares]
    by_rest = sorted(range(len(shares)), key=lambda i: counts[i] - shares[i] * n)
    for i in by_rest[: n - sum(counts)]:
        counts[i] += 1
    return counts


def cells(test_set: str, n: int) -> dict[tuple[str, str], int]:
    """Queries in each cell of entity overlap × intent overlap; the margins are exactly SHARES.

    From the scarcest: a query with no shared entity takes a whole entity out of training, a
    duplicate takes nothing.

    >>> cells("dl19", 43)[("full", "duplicate")]
    22
    """
    full, partial, zero = whole(SHARES[test_set]["entity"], n)
    duplicate, similar, _ = whole(SHARES[test_set]["intent"], n)
    rest = full - duplicate
    similar_full = max(similar - partial, min(rest, round(similar * rest / max(1, rest + partial))))
    return {
        ("zero", "dissimilar"): zero,
        ("partial", "dissimilar"): partial - similar + similar_full,
        ("partial", "similar"): similar - similar_full,
        ("full", "dissimilar"): rest - similar_full,
        ("full", "similar"): similar_full,
        ("full", "duplicate"): duplicate,
    }


class Holdout:
    """Intents of a composer, by their positions, that training may not have (`banned`) and must
    have (`required`).
    """

    def __init__(self, intents: list[dict], rng: Random):
        self.intents, self.rng = intents, rng
        self.banned: set[int] = set()
        self.required: dict[int, None] = {}
        self.used: set[int] = set()
        self.load: Counter[str] = Counter()
        order = shuffled(rng, range(len(intents)))
        self.pools = [[i for i in order if len(intents[i]["entities"]) == size] for size in (1, 2)]
        self.of_entity: dict[str, list[int]] = defaultdict(list)
        for i, intent in enumerate(intents):
            for entity in intent["entities"]:
                self.of_entity[entity].append(i)

    def demands(self, i: int, cell: tuple[str, str]) -> tuple[set[int], list[int]]:
        """What `cell` asks of training for intent `i`: all of the first out, then one that is left
        of the second in.
        """
        me = self.intents[i]
        sharing = list(
            dict.fromkeys(j for entity in me["entities"] for j in self.of_entity[entity])
        )
        same = [j for j in sharing if self.intents[j]["entities"] == me["entities"]]
        group = [j for j in sharing if self.intents[j]["group"] == me["group"]]
        return {
            ("full", "duplicate"): (set(), [i]),
            ("full", "similar"): ({i}, [j for j in same if j in group]),
            ("full", "dissimilar"): (set(group), same),
            ("partial", "similar"): (set(same), group),
            ("partial", "dissimilar"): ({*same, *group}, sharing),
            ("zero", "dissimilar"): (set(sharing), []),
        }[cell]

    def take(self, cell: tuple[str, str], pair: bool) -> int | None:
        """An unused intent that can serve `cell`, of 30 the one that takes least out of training;
        None if none can.
        """
        pool, found = self.pools[pair], []
        start = int(self.rng.random() * len(pool))
        for i in pool[start:] + pool[:start]:
            if i in self.used or len(found) == 30:
                continue
            out, need = self.demands(i, cell)
            allowed = [j for j in need if j not in self.banned and j not in out]
            if (allowed or not need) and out.isdisjoint(self.required):
                heavy = max(self.load[entity] for entity in self.intents[i]["entities"]) >= 4
                found.append((sum(j not in self.banned for j in out) + 50 * heavy, i, out, allowed))
        if not found:
            return None
        _, i, out, allowed = min(found, key=lambda option: option[0])
        self.used.add(i)
        self.banned.update(out)
        if allowed and self.required.keys().isdisjoint(allowed):
            self.required[pick(self.rng, allowed)] = None
        self.load.update(self.intents[i]["entities"])
        return i


def plan(intents: list[dict], sizes: dict[str, int], rng: Random) -> tuple[dict, Holdout]:
    """Intents of each test set with their planned labels: {test set: [(intent, entity label, intent
    label)]}.
    """
    wanted = {test_set: cells(test_set, n) for test_set, n in sizes.items()}
    holdout, chosen = Holdout(intents, rng), {test_set: [] for test_set in sizes}
    for cell in next(iter(wanted.values())):
        # Half of the partial overlaps are single entities that training knows from pairs only.
        odds = {"partial": 0.5, "full": 0.12, "zero": 0.0}[cell[0]]
        for test_set in (name for name in sizes for _ in range(wanted[name][cell])):
            pair = rng.random() < odds
            i = holdout.take(cell, pair)
            i = holdout.take(cell, not pair) if i is None else i
            if i is None:
                asked = f"{wanted[test_set][cell]} queries with {cell[0]} entity overlap and {cell[1]} intent"
                mend = "beside the other test sets; lower n_dev"
                raise InputError(f"{test_set}: the world is too small for {asked} {mend}")
            chosen[test_set].append((i, *cell))
    return chosen, holdout
