"""What a download costs and asks is known from ir_datasets' own catalogue, before it."""

import json
import os
import subprocess
import sys

import pytest

from interextra.data.catalogue import _licence_in, _plain, bytes_of_copies

SCRIPT = """
import json
from interextra.data.load import published
specs = ("irds:msmarco-passage", "irds:beir/cqadupstack/tex", "irds:beir/fever/test",
         "irds:disks45/nocr/trec-robust-2004", "irds:argsme/2020-04-01/touche-2020-task-1")
print(json.dumps({spec: published(spec) for spec in specs}, default=str))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """With the queries of MS MARCO's training already unpacked."""
    home = tmp_path_factory.mktemp("home")
    unpacked = home / "msmarco-passage" / "train"
    unpacked.mkdir(parents=True)
    (unpacked / "queries.tsv").write_text("1\tunpacked\n")
    env = os.environ | {"IR_DATASETS_HOME": str(home), "INTEREXTRA_CACHE": str(home / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, check=True
    )
    assert not [*home.rglob("*.gz"), *home.rglob("*.zip")], "nothing is downloaded"
    return json.loads(done.stdout)


def test_files_and_bytes_are_those_of_the_catalogue_without_what_is_there(found):
    is_here, archives, copies, terms, folders = found["irds:msmarco-passage"]
    sizes = {address.rpartition("/")[2]: n_bytes for address, n_bytes, _ in archives}
    assert sizes == {
        "collectionandqueries.tar.gz": 1_057_717_952,
        "qrels.train.tsv": 10_589_532,
        "msmarco-test2019-queries.tsv.gz": 4276,
        "2019qrels-pass.txt": 187_092,
        "msmarco-test2020-queries.tsv.gz": 4131,
        "2020qrels-pass.txt": 218_617,
    }
    assert not is_here and "agree to the MSMARCO data usage agreement" in terms
    assert copies == 2 * 4 * sum(sizes.values())


def test_terms_are_what_is_stated_or_where_they_can_be_read(found):
    terms = {spec: values[3] for spec, values in found.items()}
    cqadupstack = "http://nlp.cis.unimelb.edu.au/resources/cqadupstack/"
    assert terms["irds:beir/cqadupstack/tex"] == f"licence not stated here: read {cqadupstack}"
    assert (
        terms["irds:beir/fever/test"]
        == "licence not stated here: read https://fever.ai/resources.html"
    )
    assert "TREC data usage agreement" in terms["irds:disks45/nocr/trec-robust-2004"]
    argsme = terms["irds:argsme/2020-04-01/touche-2020-task-1"]
    assert "Creative Commons Attribution 4.0 International <https://creativecommons.org" in argsme


def test_what_is_only_handed_out_says_how(found):
    archives = found["irds:disks45/nocr/trec-robust-2004"][1]
    by_hand = [address for address, _, is_by_hand in archives if is_by_hand]
    assert by_hand and all("TREC" in text or "disks" in text for text in by_hand)


def test_copies_are_as_large_as_the_smaller_of_two_estimates():
    class Known:
        n_bytes = 1000

    assert bytes_of_copies([Known], None) == 8000
    assert bytes_of_copies([Known], 2) == 2 * 2 * 1500
    assert bytes_of_copies([], 2) == 6000 and bytes_of_copies([], None) == 0


def test_markup_is_taken_out():
    assert (
        _plain('<p>See <a href="https://x.org">this</a>\n page.</p>')
        == "See this <https://x.org> page."
    )
    assert (
        _licence_in("Texts. It has a licence of its own. More.") == "It has a licence of its own."
    )
