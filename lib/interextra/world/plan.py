"""Which intents are held out of training.

So the overlap of test with training queries comes out as asked.
"""

from collections import Counter, defaultdict
from random import Random
from typing import NamedTuple

from interextra.store.errors import InputError
from interextra.world.compose import Intent
from interextra.world.templates import below, pick, shuffled

Cell = tuple[str, str]  # labels of the overlap of entities and of intents
Planned = dict[str, list[tuple[int, Cell]]]  # test set -> position of an intent, its labels

# Zhan et al., Tables 1 and 2
SHARES = {
    "dl19": {"entity": [0.63, 0.30, 0.07], "intent": [0.51, 0.28, 0.21]},
    "dl20": {"entity": [0.54, 0.39, 0.07], "intent": [0.37, 0.22, 0.41]},
    "dev": {"entity": [0.45, 0.51, 0.04], "intent": [0.34, 0.19, 0.47]},
}
SHARES["graded"] = SHARES["dl20"]

# How often a query is about a pair, by its overlap of entities: half of the partial overlaps are
# single entities that training knows from pairs only.
PAIRS = {"partial": 0.5, "full": 0.12, "zero": 0.0}


def whole(shares: list[float], n: int) -> list[int]:
    """Return shares as counts that sum to `n` (largest remainders).

    Examples
    --------
    >>> whole([.63, .30, .07], 43)
    [27, 13, 3]
    """
    counts = [int(share * n + 1e-9) for share in shares]
    remainders = [count - share * n for count, share in zip(counts, shares, strict=True)]
    by_remainder = sorted(range(len(shares)), key=remainders.__getitem__)
    for i in by_remainder[: n - sum(counts)]:
        counts[i] += 1
    return counts


def cells(test_set: str, n: int) -> dict[Cell, int]:
    """Return the number of queries in each cell of entity overlap × intent overlap.

    The margins are exactly SHARES. Cells are ordered from the scarcest: a query with no shared
    entity takes a whole entity out of training, a duplicate takes nothing.

    Examples
    --------
    >>> cells("dl19", 43)[("full", "duplicate")]
    22
    """
    shares = SHARES[test_set]
    full, partial, zero = whole(shares["entity"], n)
    duplicate, similar, _ = whole(shares["intent"], n)
    rest = full - duplicate
    in_proportion = round(similar * rest / max(1, rest + partial))
    similar_full = max(similar - partial, min(rest, in_proportion))
    return {
        ("zero", "dissimilar"): zero,
        ("partial", "dissimilar"): partial - similar + similar_full,
        ("partial", "similar"): similar - similar_full,
        ("full", "dissimilar"): rest - similar_full,
        ("full", "similar"): similar_full,
        ("full", "duplicate"): duplicate,
    }


class _Candidate(NamedTuple):
    """An intent that can serve a cell, by its position, and what that asks of training."""

    position: int
    out: set[int]  # intents that training may not have
    allowed: list[int]  # intents of which it must have one
    cost: int  # how much it takes out of training


class Holdout:
    """Intents of a composer that training may not have (`banned`) and must have (`required`).

    Intents are named by their positions.
    """

    def __init__(self, intents: list[Intent], rng: Random):
        self.intents = intents
        self.rng = rng
        self.banned: set[int] = set()
        self.required: dict[int, None] = {}  # a set that keeps its order
        self.used: set[int] = set()
        self.load: Counter[str] = Counter()  # test queries about each entity
        order = shuffled(rng, range(len(intents)))
        self.singles: list[int] = []
        self.pairs: list[int] = []
        for i in order:
            n_entities = len(intents[i].entities)
            if n_entities == 1:
                self.singles.append(i)
            elif n_entities == 2:
                self.pairs.append(i)
        self.of_entity: dict[str, list[int]] = defaultdict(list)
        for i, intent in enumerate(intents):
            for entity in intent.entities:
                self.of_entity[entity].append(i)

    def demands(self, position: int, cell: Cell) -> tuple[set[int], list[int]]:
        """Return what `cell` asks of training for an intent.

        All of the first are out, then one that is left of the second is in.
        """
        intents = self.intents
        intent = intents[position]
        sharing = []
        for entity in intent.entities:
            sharing += [i for i in self.of_entity[entity] if i not in sharing]
        same = [i for i in sharing if intents[i].entities == intent.entities]
        group = [i for i in sharing if intents[i].group == intent.group]
        return {
            ("full", "duplicate"): (set(), [position]),
            ("full", "similar"): ({position}, [i for i in same if i in group]),
            ("full", "dissimilar"): (set(group), same),
            ("partial", "similar"): (set(same), group),
            ("partial", "dissimilar"): ({*same, *group}, sharing),
            ("zero", "dissimilar"): (set(sharing), []),
        }[cell]

    def take(self, cell: Cell, pair: bool) -> int | None:
        """Return an unused intent that can serve `cell`, and hold out what it asks for.

        It is about a pair or about one entity, as asked, or else the other way round. Of 30 it is
        the one that takes least out of training; None if none can.
        """
        candidates = self._candidates(cell, pair)
        if not candidates:
            candidates = self._candidates(cell, not pair)
        if not candidates:
            return None
        best = min(candidates, key=lambda candidate: candidate.cost)
        self.used.add(best.position)
        self.banned |= best.out
        has_none = self.required.keys().isdisjoint(best.allowed)
        if best.allowed and has_none:
            self.required[pick(self.rng, best.allowed)] = None
        self.load.update(self.intents[best.position].entities)
        return best.position

    def _candidates(self, cell: Cell, pair: bool) -> list[_Candidate]:
        """Return up to 30 candidates about one entity or a pair, from a random place on."""
        pool = self.pairs if pair else self.singles
        start = below(self.rng, len(pool))
        candidates: list[_Candidate] = []
        for position in pool[start:] + pool[:start]:
            if position in self.used:
                continue
            candidate = self._candidate(position, cell)
            if candidate:
                candidates.append(candidate)
            if len(candidates) == 30:
                break
        return candidates

    def _candidate(self, position: int, cell: Cell) -> _Candidate | None:
        """Return a candidate; None if what it asks of training goes against what others asked."""
        out, needed = self.demands(position, cell)
        allowed = [i for i in needed if i not in self.banned and i not in out]
        if needed and not allowed:
            return None
        if not out.isdisjoint(self.required):
            return None
        cost = len(out - self.banned)
        entities = self.intents[position].entities
        loads = [self.load[entity] for entity in entities]
        if max(loads) >= 4:
            cost += 50
        return _Candidate(position, out, allowed, cost)


def plan(intents: list[Intent], sizes: dict[str, int], rng: Random) -> tuple[Planned, Holdout]:
    """Return the intents of each test set, and what is held out for them.

    `sizes` are the numbers of queries of the test sets.
    """
    wanted = {test_set: cells(test_set, n) for test_set, n in sizes.items()}
    holdout = Holdout(intents, rng)
    planned: Planned = {test_set: [] for test_set in sizes}
    for cell in next(iter(wanted.values())):
        entity_label, intent_label = cell
        for test_set in sizes:
            n_wanted = wanted[test_set][cell]
            for _ in range(n_wanted):
                pair = rng.random() < PAIRS[entity_label]
                position = holdout.take(cell, pair)
                if position is None:
                    raise InputError(
                        f"{test_set}: the world is too small for {n_wanted} queries "
                        f"with {entity_label} entity overlap and {intent_label} intent "
                        "beside the other test sets; lower n_dev"
                    )
                planned[test_set].append((position, cell))
    return planned, holdout
