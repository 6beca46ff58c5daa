"""A split of the toy topics, written for a trainer of one's own."""

from pathlib import Path

from interextra.own import splitting as own

OPTIONS = own.DEFAULTS | {"encoder": "lsa", "k": 3, "n_test": 0.25}


def written(spec, store, protocol, out, formats=("ids",), **more):
    """The split, and the manifest of its folder `out`."""
    options = OPTIONS | {"format": formats} | more
    options |= {name: own.DEFAULTS[name] for name in own.UNUSED[protocol]}
    split = own.split_of(protocol, spec, options)
    store.build(split)
    return split, own.export(split, store, Path(out), options)
