"""What the page for scripts says of --json, and a comparison with what a command prints."""

import json
import re

TYPES = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}


def documented(root):
    """Schema → key → (allowed types, whether it may be missing), of the tables of the page."""
    text = (root / "book" / "agents.md").read_text(encoding="utf-8")
    found = {}
    for section in text.split("\n### ")[1:]:
        schema = section.splitlines()[0]
        rows = re.findall(r"(?m)^\| `(.+?)` \| ([\w ]+) \| \S.* \|$", section.partition("\n## ")[0])
        found[schema] = {
            key.removeprefix("[").removesuffix("]") if key.startswith("[") else key: (
                tuple(types.split(" or ")),
                key.startswith("["),
            )
            for key, types in rows
        }
    return found


def leaves(value, path=""):
    """(path, value) of each leaf; [] stands for each item of an array."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from leaves(part, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for part in value:
            yield from leaves(part, f"{path}[]")
    else:
        yield path, value


def pattern(key):
    """A documented key as a regular expression of paths."""
    return re.escape(key).replace(r"\*", r".+")


def check(output, root):
    """Compare an output with the page; return it."""
    found = json.loads(output)
    assert list(found)[0] == "schema"
    known = documented(root)[found["schema"]]
    seen = set()
    for path, value in leaves({key: found[key] for key in found if key != "schema"}):
        [key] = [key for key in known if re.fullmatch(pattern(key), path)]
        types, _ = known[key]
        assert any(isinstance(value, TYPES[name]) for name in types), (path, value)
        assert isinstance(value, bool) == ("boolean" in types)
        seen.add(key)
    missing = {key for key, (_, is_optional) in known.items() if not is_optional} - seen
    assert not missing
    return found
