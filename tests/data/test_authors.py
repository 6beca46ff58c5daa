"""Releases of authors as they are cloned: NL2Bash, tldr-pages, SQuADShifts.

Small files in the authors' forms; the whole releases where a user has them: INTEREXTRA_CLONES names
a folder with clones `nl2bash`, `tldr` and `squadshifts-website`.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from interextra.data import load, nl2bash, tldr
from interextra.data.load import open_collection
from interextra.store.errors import InputError


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("INTEREXTRA_CACHE", str(tmp_path / "cache"))
    load._opened.cache_clear()


def opened(spec):
    """Opened as by another process."""
    load._opened.cache_clear()
    return open_collection(spec)


def fails(spec) -> str:
    with pytest.raises(InputError) as caught:
        opened(spec)
    return str(caught.value)


def passages_of(collection) -> dict[str, str]:
    doc_ids = collection.passages.doc_ids.to_pylist()
    return dict(zip(doc_ids, collection.passages.texts(slice(None)), strict=True))


def queries_of(collection):
    """All queries, by text."""
    return collection._queries.set_index("text")


def answers_of(collection) -> dict[str, set[str]]:
    """The doc_ids of each query of any split, by query_id."""
    answers = {}
    for split in collection.splits:
        for row in collection.qrels(split).itertuples():
            answers.setdefault(row.query_id, set()).add(row.doc_id)
    return answers


# NL2Bash

PAIRS = [
    ("List all  text files.", "find . -name '*.txt'"),
    ("list all text files", "ls   *.txt"),
    ("Count the lines of a", "n=$(wc -l a)"),
    ("Remove a as root", "sudo rm a"),
    ("LIST ALL TEXT FILES...", "find . -name '*.txt'"),
    *((f"Show the file number {number}", f"cat f{number}") for number in range(17)),
]


def put_pairs(folder, pairs=PAIRS, ending="\n"):
    (folder / "data" / "bash").mkdir(parents=True, exist_ok=True)
    for name, column in (("all.nl", 0), ("all.cm", 1)):
        lines = "".join(pair[column] + ending for pair in pairs)
        (folder / "data" / "bash" / name).write_bytes(lines.encode())
    return f"nl2bash:{folder}"


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_descriptions_that_differ_in_case_or_final_dots_are_one_query(tmp_path, ending):
    collection = opened(put_pairs(tmp_path, ending=ending))
    queries = queries_of(collection)
    assert list(queries.index[:3]) == [
        "List all text files.",
        "Count the lines of a",
        "Remove a as root",
    ]
    assert queries["query_id"].tolist() == [f"q{number}" for number in range(20)]
    assert answers_of(collection)["q0"] == {"c0", "c1"}
    assert passages_of(collection)["c1"] == "ls *.txt"
    assert len(collection.passages) == 21
    assert [len(collection.query_ids(split)) for split in ("train", "dev", "test")] == [16, 2, 2]


def test_splits_are_the_same_each_time_and_in_the_order_of_the_file(tmp_path):
    first, again = (opened(put_pairs(tmp_path / name)) for name in "ab")
    assert first.fingerprint == again.fingerprint
    for split in first.splits:
        numbers = [int(query_id[1:]) for query_id in first.query_ids(split)]
        assert numbers == sorted(numbers)


@pytest.mark.parametrize(
    ("command", "utility"),
    [
        ("find . -name x", "find"),
        ("sudo time rm x", "rm"),
        ("nohup ssh-keygen -t rsa &", "ssh-keygen"),
        ("n=$(wc -l f)", "wc"),
        ("n=$( wc -l f )", "wc"),
        ("n=`wc -l f`", "wc"),
        ("(cd a; ls)", "cd"),
        ("./a.sh | sort", "."),
        ('n="$(wc -l f)"', "other"),
        ("{ ls; }", "other"),
        ("/bin/ls", "other"),
        ("$x y", "other"),
    ],
)
def test_the_utility_is_the_first_command_of_a_line(command, utility):
    assert nl2bash.utility(command) == utility


def test_the_utility_of_a_query_is_that_of_its_first_command(tmp_path):
    queries = queries_of(opened(put_pairs(tmp_path)))
    assert queries["utility"].tolist()[:4] == ["find", "wc", "rm", "cat"]


@pytest.mark.parametrize(
    ("pairs", "line"),
    [
        ([*PAIRS[:4], ("", "ls"), *PAIRS[5:]], 5),
        ([*PAIRS[:4], ("List", " \t"), *PAIRS[5:]], 5),
        ([("List", "\u00a0"), *PAIRS], 1),
        ([*PAIRS, ("one more", "")], 23),
    ],
)
def test_a_line_without_its_pair_is_named(tmp_path, pairs, line):
    assert f"all.nl:{line}: a description without a command" in fails(put_pairs(tmp_path, pairs))


def test_a_line_that_is_not_utf8_is_named(tmp_path):
    spec = put_pairs(tmp_path)
    commands = tmp_path / "data" / "bash" / "all.cm"
    commands.write_bytes(commands.read_bytes().replace(b"cat f3\n", b"cat \xff\n"))
    assert "all.cm:9: not UTF-8" in fails(spec)


def test_a_folder_that_is_no_clone_is_named(tmp_path):
    assert "no such file: " in fails(f"nl2bash:{tmp_path}")
    assert "no pages/common/*.md in" in fails(f"tldr:{tmp_path}")
    assert "no such file: " in fails(f"squadshifts:{tmp_path}")
    assert "no such file: " in fails(f"squadshifts:{tmp_path / ('x' * 300)}")


def test_too_few_questions_for_three_splits_are_refused(tmp_path):
    assert "none of its 3 questions is in the split 'dev', 'test'" in fails(
        put_pairs(tmp_path, PAIRS[:4])
    )
    assert "no questions in it" in fails(put_pairs(tmp_path, []))


def test_a_release_is_read_once_and_again_after_a_change(tmp_path, monkeypatch):
    spec = put_pairs(tmp_path)
    first = opened(spec)
    with monkeypatch.context() as patch:
        patch.setattr(nl2bash, "_lines", None)
        assert opened(spec).fingerprint == first.fingerprint
    put_pairs(tmp_path, [*PAIRS, ("One more", "uptime")])
    assert len(opened(spec).passages) == len(first.passages) + 1


@pytest.mark.parametrize(
    ("options", "allowed"),
    [
        ("nl2bash:x,qrels=by_year", "none"),
        ("tldr:x,qrels=new_passages", "qrels=by_year"),
        ("squadshifts:x,empty=keep", "qrels=new_passages"),
    ],
)
def test_an_unknown_option_is_told_what_is_allowed(options, allowed):
    assert fails(options).endswith(f"allowed are {allowed}")


def test_a_path_with_a_comma_is_a_path(tmp_path):
    assert len(opened(put_pairs(tmp_path / "a,b=1")).passages) == 21


# SQuADShifts


def put_articles(path, articles):
    """A file of articles: title → paragraphs, a paragraph → its questions."""
    data = []
    for title, paragraphs in articles.items():
        entries = [
            {"context": context, "qas": [{"question": text, "id": text} for text in questions]}
            for context, questions in paragraphs.items()
        ]
        data.append({"title": title, "split": "x", "paragraphs": entries})
    path.write_text(json.dumps({"version": "1.0", "data": data}))
    return f"squadshifts:{path}"


def reviews(n=20):
    articles = {}
    for group in range(n):
        first = {f"What is  {group}?": None, f"Is {group} good?": None, "What  size is it?": None}
        articles[f"Reviews_{group}"] = {
            f"This is\n{group}.": first,
            f"That is {group}.": {f"WHAT is {group}?": None, f"Who has {group}?": None},
        }
    return articles


def test_questions_that_differ_in_case_are_one_query_of_all_their_paragraphs(tmp_path):
    collection = opened(put_articles(tmp_path / "reddit_v1.0.json", reviews()))
    queries = queries_of(collection)
    assert len(queries) == 3 * 20 + 1
    assert collection.name == "squadshifts-reddit"
    assert passages_of(collection)["p0"] == "This is 0."
    answers = answers_of(collection)
    assert answers[queries.loc["What is 3?", "query_id"]] == {"p6", "p7"}
    assert answers[queries.loc["What size is it?", "query_id"]] == {
        f"p{2 * group}" for group in range(20)
    }


def test_a_question_on_several_articles_has_the_first_one_by_name(tmp_path):
    articles = dict(reversed(reviews().items()))
    queries = queries_of(opened(put_articles(tmp_path / "a.json", articles)))
    assert queries.loc["What size is it?", "article"] == "Reviews_0"
    assert queries.loc["What is 7?", "article"] == "Reviews_7"


def test_new_passages_share_no_article_and_no_question(tmp_path):
    spec = put_articles(tmp_path / "a.json", reviews())
    collection = opened(f"{spec},qrels=new_passages")
    split_of_article = {}
    for split in collection.splits:
        qrels = collection.qrels(split)
        assert qrels["query_id"].is_monotonic_increasing
        for doc_id in qrels["doc_id"]:
            article = int(doc_id[1:]) // 2
            assert split_of_article.setdefault(article, split) == split
    counts = [list(split_of_article.values()).count(split) for split in collection.splits]
    assert counts == [16, 2, 2]
    shared = queries_of(collection).loc["What size is it?", "query_id"]
    assert shared not in answers_of(collection)
    assert len(answers_of(collection)) == 60


def test_new_passages_of_one_article_are_split_by_passage(tmp_path):
    paragraphs = {f"Text {at}": {f"What is {at}?": None, f"Is it {at}?": None} for at in range(30)}
    spec = put_articles(tmp_path / "a.json", {"Comments": paragraphs})
    collection = opened(f"{spec},qrels=new_passages")
    doc_ids = [set(collection.qrels(split)["doc_id"]) for split in collection.splits]
    assert [len(some) for some in doc_ids] == [24, 3, 3]
    assert len(set.union(*doc_ids)) == 30


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "not readable as JSON"),
        ('{"data": 3}', "'data': Input should be a valid list"),
        (
            '{"data": [{"title": "a", "paragraphs": [{"context": "b", "qas": [{"id": 1}]}]}]}',
            "'data.0.paragraphs.0.qas.0.question': Field required",
        ),
        (
            '{"data": [{"title": "a", "paragraphs": [{"context": " ", "qas": []}]}]}',
            "'data.0.paragraphs.0.context': String should match",
        ),
        ('{"data": []}', "no questions in it"),
    ],
)
def test_a_file_in_another_format_is_told_where(tmp_path, text, told):
    (tmp_path / "a.json").write_text(text)
    message = fails(f"squadshifts:{tmp_path / 'a.json'}")
    assert message.startswith(str(tmp_path / "a.json")) and told in message


# tldr-pages

PAGE = """# {title}

> Work on `{title}`.
> {note}
> More information: <https://example.com>.

- [c]reate a `{title}` thing:

`{title} --new {{{{name}}}}`

- Remove all things of {title}:

`{title} {{{{[-r|--remove]}}}}`

- Display help:

`{title} --help`

- Wait until things are ready:

`{title} --wait`
"""
ALIAS = """# other

> This command is an alias of `tool0`.

- View documentation for the original command:

`tldr tool0`
"""


def git(folder, *arguments, year=2020):
    date = f"{year}-06-01T12:00:00"
    environment = os.environ | {
        "GIT_AUTHOR_DATE": date,
        "GIT_COMMITTER_DATE": date,
        "GIT_CONFIG_GLOBAL": os.devnull,
    }
    user = ["-c", "user.name=someone", "-c", "user.email=someone@example.com"]
    command = ["git", "-C", str(folder), *user, *arguments]
    return subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True
    ).stdout


def add_pages(folder, names, year):
    """Commit pages of a year."""
    for name in names:
        path = folder / "pages" / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        title = path.stem.replace("-", " ")
        path.write_text(PAGE.format(title=title, note="See also: `tea`."))
    git(folder, "add", ".")
    git(folder, "commit", "-qm", f"pages of {year}", year=year)


@pytest.fixture
def clone(tmp_path):
    """A repository: five pages of 2021, four of 2023, four of 2025, an alias, and a moved page."""
    if not shutil.which("git"):
        pytest.skip("git is not installed")
    folder = tmp_path / "tldr"
    folder.mkdir()
    git(folder, "init", "-q")
    add_pages(folder, [*(f"common/tool{at}" for at in range(5)), "common/old"], 2021)
    add_pages(folder, [f"linux/tool{at}" for at in range(5, 9)], 2023)
    (folder / "pages" / "common" / "other.md").write_text(ALIAS)
    git(folder, "mv", "pages/common/old.md", "pages/common/moved.md")
    add_pages(folder, ["android/tool1", "osx/git-push", *(f"windows/t{at}" for at in "abc")], 2025)
    return folder


def test_a_page_is_a_passage_without_captions_and_alias_pages_are_none(clone):
    passages = passages_of(opened(f"tldr:{clone}"))
    assert passages["osx/git-push"] == (
        "git push Work on git push. git push --new name ; git push [-r|--remove] ; "
        "git push --help ; git push --wait"
    )
    assert list(passages) == [
        "common/moved",
        *(f"common/tool{at}" for at in range(5)),
        *(f"linux/tool{at}" for at in range(5, 9)),
        "osx/git-push",
        *(f"windows/t{at}" for at in "abc"),
    ]


def test_captions_lose_brackets_and_back_ticks_and_short_ones_are_left_out(clone):
    collection = opened(f"tldr:{clone}")
    texts = set(queries_of(collection).index)
    assert "create a tool3 thing" in texts
    assert not any(text.startswith("Display") for text in texts)
    shared = queries_of(collection).loc["Wait until things are ready", "query_id"]
    assert len(answers_of(collection)[shared]) == 14


def test_queries_know_platform_family_and_the_year_their_page_was_added(clone):
    queries = queries_of(opened(f"tldr:{clone}"))
    known = queries.loc["create a git push thing", ["platform", "family", "year"]]
    assert known.tolist() == ["osx", "git", "2025"]
    assert queries.loc["create a tool2 thing", "year"] == "2021"
    assert queries.loc["create a old thing", "year"] == ""  # common/moved
    assert queries.loc["Wait until things are ready", "year"] == ""  # of its first page


def test_years_part_the_pages_and_captions_of_several_years_are_left_out(clone):
    collection = opened(f"tldr:{clone},qrels=by_year")
    doc_ids = {split: set(collection.qrels(split)["doc_id"]) for split in collection.splits}
    assert doc_ids["train"] == {f"common/tool{at}" for at in range(5)}
    assert doc_ids["dev"] == {f"linux/tool{at}" for at in range(5, 9)}
    assert doc_ids["test"] == {"osx/git-push", "windows/ta", "windows/tb", "windows/tc"}
    shared = queries_of(collection).loc["Wait until things are ready", "query_id"]
    assert shared not in answers_of(collection)


def test_a_page_that_was_removed_and_added_again_has_its_first_year(clone):
    page = clone / "pages" / "common" / "tool0.md"
    git(clone, "rm", "-q", str(page))
    git(clone, "commit", "-qm", "away", year=2024)
    add_pages(clone, ["common/tool0"], 2026)
    assert queries_of(opened(f"tldr:{clone}")).loc["create a tool0 thing", "year"] == "2021"


def test_settings_of_git_change_no_year(clone):
    before = opened(f"tldr:{clone}").fingerprint
    git(clone, "config", "diff.renames", "false")
    git(clone, "config", "log.date", "relative")
    git(clone, "commit", "-q", "--allow-empty", "-m", "another commit, to be read again")
    assert opened(f"tldr:{clone}").fingerprint == before


def test_no_program_that_a_clone_names_is_run(clone, tmp_path):
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path / 'was-run'}\n")
    program.chmod(0o755)
    for name in ("core.pager", "gpg.program", "core.fsmonitor", "diff.external"):
        git(clone, "config", name, str(program))
    git(clone, "config", "log.showSignature", "true")
    commit = git(clone, "cat-file", "commit", "HEAD")
    signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n x\n -----END PGP SIGNATURE-----"
    signed = re.sub(r"(?m)^(committer .*)$", rf"\1\n{signature}", commit, count=1)
    (tmp_path / "signed").write_text(signed)
    head = git(clone, "hash-object", "-t", "commit", "-w", str(tmp_path / "signed"))
    git(clone, "reset", "-q", "--soft", head.strip())
    (tmp_path / "was-run").unlink(missing_ok=True)
    opened(f"tldr:{clone}")
    assert not (tmp_path / "was-run").exists()
    git(clone, "log", "-1")
    assert (tmp_path / "was-run").exists(), "the clone is not one that runs a program"


@pytest.mark.parametrize("kind", ["shallow", "unpacked"])
def test_a_clone_without_its_history_is_told_how_to_get_it(clone, tmp_path, kind):
    git(tmp_path, "init", "-q")  # the history of a folder around it is another one
    copy = tmp_path / "copy"
    told = "it is a shallow clone"
    if kind == "shallow":
        git(tmp_path, "clone", "-q", "--depth=1", f"file://{clone}", str(copy))
    else:
        shutil.copytree(clone / "pages", copy / "pages")
        told = "git says: fatal: not a git repository"
    message = fails(f"tldr:{copy}")
    assert f"the years of its pages are not known: {told}" in message
    assert "git clone https://github.com/tldr-pages/tldr" in message
    assert "git fetch --unshallow" in message


def test_without_git_the_years_are_not_known(clone, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert "git is not installed" in fails(f"tldr:{clone}")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("> Work", "Work", ":3: 'Work on `tool1`.' begins with none of # > - `"),
        ("`tool1 --help`", "", ":1: 1 titles, 4 captions and 3 commands"),
        ("# tool1", "", ":1: 0 titles, 4 captions and 4 commands"),
    ],
)
def test_a_line_that_is_none_of_a_page_is_named(clone, old, new, told):
    page = clone / "pages" / "common" / "tool1.md"
    page.write_text(page.read_text().replace(old, new))
    assert fails(f"tldr:{clone}").startswith(f"{page}{told}")


@pytest.mark.parametrize(
    ("summary", "caption", "is_alias"),
    [
        ("This command is an alias of `x`.", "List files", True),
        ("Work on x.", "View documentation for the original command", True),
        ("Work on aliases.", "List files", False),
    ],
)
def test_a_page_that_leads_to_another_one_is_an_alias(summary, caption, is_alias):
    assert tldr.Page("x", summary, [caption], ["x"]).is_alias == is_alias


# The whole releases

WHOLE = [
    ("nl2bash", "nl2bash:{clones}/nl2bash", "qrels"),
    ("tldr", "tldr:{clones}/tldr", "qrels"),
    ("tldr", "tldr:{clones}/tldr,qrels=by_year", "qrels_by_year"),
]
for domain, file in (("reddit", "reddit"), ("amazon", "amazon_reviews")):
    path = f"squadshifts:{{clones}}/squadshifts-website/datasets/{file}_v1.0.json"
    WHOLE += [
        (f"squadshifts-{domain}", path, "qrels"),
        (f"squadshifts-{domain}", f"{path},qrels=new_passages", "qrels_new_passages"),
    ]


@pytest.mark.parametrize(("name", "spec", "qrels"), WHOLE)
def test_a_release_is_the_prepared_collection(real_data, tmp_path, name, spec, qrels):
    """Ids, texts, attributes, judgements and splits, in their order."""
    clones = os.environ.get("INTEREXTRA_CLONES", "")
    if not clones:
        pytest.skip("no clones of the authors' repositories: set INTEREXTRA_CLONES")
    prepared = real_data / "collections" / name
    repository = spec.partition(":")[2].format(clones=clones).split(",")[0]
    repository = Path(re.sub("/datasets/.*", "", repository))
    if not prepared.is_dir() or not repository.is_dir():
        pytest.skip(f"no {prepared} or no {repository}")
    commit = re.search(r"@ ([0-9a-f]{40})", (prepared / "PROVENANCE.md").read_text())[1]
    head = git(repository, "rev-parse", "HEAD").strip()
    if head != commit:
        pytest.skip(f"{repository} is at {head}, the prepared collection at {commit}")
    for file in ("corpus.jsonl", "queries.jsonl"):
        (tmp_path / file).symlink_to(prepared / file)
    (tmp_path / "qrels").symlink_to(prepared / qrels)
    folder = opened(f"beir:{tmp_path}")
    release = opened(spec.format(clones=clones))
    assert passages_of(release) == passages_of(folder)
    assert release._queries[folder._queries.columns].equals(folder._queries)
    for split in folder.splits:
        assert release.qrels(split).equals(folder.qrels(split))
    assert release.fingerprint == folder.fingerprint
