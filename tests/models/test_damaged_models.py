"""Whatever anybody writes into a recipe or a model's folder gives a result or one InputError of one
line.
"""

import json
import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from toy_models import animals

from interextra.models.architectures.dense import build
from interextra.models.base import BASE, initialisation, initialisation_digest
from interextra.models.model import fit, load_model
from interextra.models.recipe import Recipe, load_recipe
from interextra.store.errors import InputError

# The same inputs in every run; loading a model takes about a tenth of a second
FUZZED = {"derandomize": True, "deadline": None, "database": None}
FUZZED |= {"suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]}
ODD = [
    "",
    "x/y",
    "../x",
    "~nobody/x",
    "/nothere",
    "\x00",
    "\ud800",
    "x" * 5000,
    ".inf",
    "null",
    "é",
    "torch.x",
]
NUMBERS = st.one_of(
    st.integers(-3, 70), st.sampled_from([10**9, 10**30, -(2**63), 1e-320, 1e308]), st.floats()
)
WORDS = st.one_of(st.sampled_from(ODD), st.text(max_size=20))
PLAIN = st.one_of(st.none(), st.booleans(), NUMBERS, WORDS)
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3)
)


def in_a_line(ask):
    """What it gives, or None with one clear line about what was given."""
    try:
        return ask()
    except InputError as error:
        assert "\n" not in str(error) and len(str(error)) < 20_000
        return None


KEYS = st.one_of(
    st.sampled_from([*type(load_recipe("mini-tas-b")).model_fields, "k1", "dimension"]), WORDS
)
NAMES = st.sampled_from(["mini-dense", "mini-reranker", "mini-splade", "mini-tas-b", "bm25"])


@settings(max_examples=150, **FUZZED)
@given(NAMES, st.dictionaries(KEYS, VALUES, max_size=4))
def test_values_of_a_recipe(name, values):
    made = in_a_line(lambda: load_recipe(name, **values))
    assert made is None or isinstance(made, Recipe)


@settings(max_examples=150, **FUZZED)
@given(NAMES, st.one_of(st.text(max_size=60), st.dictionaries(KEYS, VALUES, max_size=3).map(repr)))
def test_text_behind_the_name_of_a_recipe(name, text):
    made = in_a_line(lambda: load_recipe(f"{name}{{{text}}}"))
    assert made is None or isinstance(made, Recipe)


@settings(max_examples=120, **FUZZED)
@given(
    st.one_of(
        st.binary(max_size=80),
        st.text(max_size=80).map(lambda text: text.encode(errors="surrogatepass")),
    )
)
def test_file_of_a_recipe(tmp_path, content):
    path = tmp_path / "mine.yaml"
    for head in (b"", b"architecture: dense\nsteps: 1\n"):
        path.write_bytes(head + content)
        made = in_a_line(lambda: load_recipe(path))
        assert made is None or isinstance(made, Recipe)


@settings(max_examples=120, **FUZZED)
@given(WORDS)
def test_initialisation_is_known_or_refused(spec):
    in_a_line(lambda: initialisation_digest(spec))
    in_a_line(lambda: initialisation(spec))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The tiny base as a folder, and a trained model."""
    home = tmp_path_factory.mktemp("home")
    toy, recipe = (
        animals(home / "toy", n=4),
        load_recipe("mini-dense", steps=1, batch_size=2, warmup_steps=0),
    )
    fit(recipe, toy, toy.query_ids("train"), "train", 1, home / "trained")
    shutil.copytree(BASE, home / "base")
    return home


def changed(content, changes):
    """A JSON value in which some values at the top are others; the changes themselves where it has
    no names.
    """
    value = json.loads(content)
    if isinstance(value, list):
        return [one | changes for one in value]
    return value | changes


def written(path, content, changes, damage):
    """A file with changed values, or with the bytes of `damage`; json writes Infinity and NaN,
    too.
    """
    path.write_bytes(json.dumps(changed(content, changes)).encode() if damage is None else damage)


DAMAGE = st.one_of(
    st.none(),
    st.none(),
    st.none(),
    st.binary(max_size=40),
    st.just(b"[" * 100_000),
    st.just(b"[1, 2]"),
)
SHAPE = [
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "intermediate_size",
    "num_attention_heads",
    "hidden_act",
]
SHAPE += [
    "max_position_embeddings",
    "type_vocab_size",
    "layer_norm_eps",
    "model_type",
    "architectures",
    "dtype",
]
SHAPE += [
    "attn_implementation",
    "_attn_implementation",
    "auto_map",
    "quantization_config",
    "is_decoder",
]
CHANGES = st.dictionaries(st.sampled_from(SHAPE) | WORDS, VALUES, min_size=1, max_size=2)


@settings(max_examples=60, **FUZZED)
@given(st.sampled_from(["config.json", "tokenizer_config.json"]), CHANGES, DAMAGE)
def test_folder_that_a_training_starts_from(saved, name, changes, damage):
    path = saved / "base" / name
    content = (BASE / name).read_bytes()
    recipe = load_recipe("mini-dense", initialisation=str(saved / "base"))
    try:
        written(path, content, changes, damage)
        in_a_line(lambda: build(recipe, 1).encode(["a text"]))
    finally:
        path.write_bytes(content)


OPTIONS = [
    "type",
    "path",
    "name",
    "idx",
    "transformer_task",
    "modality_config",
    "module_output_name",
    "model_args",
]
OPTIONS += [
    "query_length",
    "document_length",
    "max_seq_length",
    "do_lower_case",
    "similarity_fn_name",
    "prompts",
]
OPTIONS += [
    "activation_fn",
    "default_prompt_name",
    "__version__",
    "recipe",
    "architecture",
    "requirements",
]
OF_A_SAVED = [
    "config.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
]
OF_A_SAVED += ["1_Pooling/config.json", "model.json"]


@settings(max_examples=80, **FUZZED)
@given(
    st.sampled_from(OF_A_SAVED),
    st.dictionaries(st.sampled_from(OPTIONS + SHAPE) | WORDS, VALUES, max_size=2),
    DAMAGE,
)
def test_folder_of_a_trained_model(saved, name, changes, damage):
    path = saved / "trained" / name
    content = path.read_bytes()
    try:
        written(path, content, changes, damage)
        in_a_line(lambda: load_model(saved / "trained"))
    finally:
        path.write_bytes(content)


def test_folders_are_whole_after_what_was_written_into_them(saved):
    assert load_model(saved / "trained").encode_queries(["a text"]).shape == (1, 64)
    assert initialisation_digest(str(saved / "base")) == initialisation_digest(str(BASE))
