import json
import shutil

import numpy as np
import pytest
from safetensors.torch import load_file, save_file
from tiny_families import FAMILIES, PROMPTS, SEARCH
from tiny_models import edit_json

from retriever import load_encoder
from retriever.core.errors import EncoderError, UsageError
from retriever.core.fingerprint import json_hash
from retriever.core.protocols import WrappedEncoder
from retriever.core.roles import RolePrompts
from retriever.core.similarity import normalise
from retriever.encoders.bert.encoder import BertEncoder
from retriever.encoders.catalog import resolve_name
from retriever.encoders.model_options import NamedModel
from retriever.encoders.self_check import TRIPLES, weaknesses
from retriever.encoders.sources import folder_digest
from retriever.serving.batching import BatchQueue, QueuedEncoder

TEXTS = ["the toy broke", "kettle boils water fast, and it is heavy", "x", "a sharp knife " * 30]

ORIGINS = {
    "qwen3-embedding": "registered in its config_sentence_transformers.json",
    "embedding-gemma": "registered in its config_sentence_transformers.json",
    "e5": "E5, by its name",
    "bge": "English BGE, by its name",
    "multilingual-e5": "E5, by its name",
    "nomic": "Nomic Embed, by its architecture",
    "e5-mistral": "registered in its config_sentence_transformers.json",
}


def stock(folder):
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(folder), device="cpu")


def close(vectors, expected, within=1e-5):
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, normalise(expected), atol=within)


def documents(encoder):
    """Documents in float32, in which a BERT reads queries alone."""
    if isinstance(encoder.model, BertEncoder):
        prompts = [encoder.spec.prompts.before_document() + text for text in TEXTS]
        vectors = np.zeros((len(TEXTS), encoder.dim), dtype=np.float32)
        for rows, read in encoder.model.read_queries(prompts):
            vectors[rows] = read
        assert (normalise(vectors) * encoder.encode(TEXTS)).sum(axis=1).min() > 0.999
        return normalise(vectors)
    return encoder.encode(TEXTS)


@pytest.mark.parametrize("name", FAMILIES)
def test_each_role_has_its_prompt_and_the_vectors_of_sentence_transformers(family, name):
    folder, (query, document) = family(name), PROMPTS[name]
    encoder, theirs = load_encoder(f"st:{folder}", device="cpu"), stock(folder)
    prompts = encoder.spec.prompts
    assert (prompts.before_query(), prompts.before_document(), prompts.origin) == (query, document, ORIGINS[name])
    close(encoder.encode_queries(TEXTS), theirs.encode_query(TEXTS, prompt=query))
    close(documents(encoder), theirs.encode_document(TEXTS, prompt=document))
    if theirs.prompts["query"]:
        close(encoder.encode_queries(TEXTS), theirs.encode_query(TEXTS))
        close(encoder.encode(TEXTS), theirs.encode_document(TEXTS))


def test_a_model_without_prompts_keeps_its_fingerprint(tiny):
    encoder = load_encoder(f"st:{tiny('sentence')}", device="cpu")
    assert encoder.fingerprint == json_hash({"method": "st", "backbone": folder_digest(tiny("sentence"))})
    assert encoder.spec.prompts == RolePrompts()
    close(encoder.encode_queries(TEXTS), stock(tiny("sentence")).encode_query(TEXTS))


def test_prompts_and_dimensions_are_part_of_the_fingerprint(tiny):
    plain = f"st:{tiny('sentence')}"
    named = [plain, f"{plain},query=find: ", f"{plain},document=find: ", f"{plain},dim=16", f"{plain},dim=32"]
    assert len({load_encoder(name, device="cpu").fingerprint for name in named}) == len(named)


@pytest.fixture
def copy(family, tmp_path):
    """Copy a family's model to a folder whose name says nothing."""
    return lambda name: shutil.copytree(family(name), tmp_path / "model")


def sent(folder, options=""):
    return load_encoder(f"st:{folder}{options}", device="cpu").spec.prompts


def test_an_instruction_replaces_the_registered_one_and_documents_stay_bare(family):
    folder = family("qwen3-embedding")
    encoder, theirs = load_encoder(f"st:{folder}", device="cpu"), stock(folder)
    prompt = "Instruct: Find causes.\nQuery:"
    close(encoder.encode_queries(TEXTS, instruction=" Find causes. "), theirs.encode_query(TEXTS, prompt=prompt))
    close(encoder.encode_queries(TEXTS, instruction=SEARCH), encoder.encode_queries(TEXTS))
    bare, under = encoder.encode_many(TEXTS, ["", "Find causes."])
    close(bare, theirs.encode_document(TEXTS))
    close(under, theirs.encode_document(TEXTS, prompt=prompt))


def test_a_prompt_that_the_folder_registers_for_passages_is_read(copy):
    folder = copy("bge")
    edit_json(folder / "config_sentence_transformers.json", prompts={"query": "ask: ", "passage": "tell: "})
    assert (sent(folder).query, sent(folder).document) == ("ask: ", "tell: ")


def test_a_default_prompt_goes_before_all_texts_where_no_role_has_one(copy):
    folder = copy("multilingual-e5")
    edit_json(folder / "config_sentence_transformers.json", prompts={"any": "text: "}, default_prompt_name="any")
    encoder = load_encoder(f"st:{folder}", device="cpu")
    close(encoder.encode(TEXTS), stock(folder).encode(TEXTS))
    close(encoder.encode_queries(TEXTS), stock(folder).encode(TEXTS))


def test_a_family_is_known_under_another_name_by_what_its_files_say(copy):
    folder = copy("e5")
    assert sent(folder) == RolePrompts()
    edit_json(folder / "config.json", _name_or_path="intfloat/e5-small-v2")
    assert sent(folder).query == "query: "
    edit_json(folder / "config.json", _name_or_path="/tmp/out")
    (folder / "README.md").write_text("---\nmodel-index:\n- name: multilingual-e5-small\n---\n")
    assert sent(folder).document == "passage: "


@pytest.mark.parametrize("name", ["prose5-small", "rebge-small-en", "note5-mistral", "minilm"])
def test_a_name_that_only_resembles_a_family_is_none_of_it(family, tmp_path, name):
    assert sent(shutil.copytree(family("e5"), tmp_path / name)) == RolePrompts()


def test_what_pools_the_last_token_and_registers_nothing_takes_instructions(copy):
    folder = copy("qwen3-embedding")
    edit_json(folder / "config_sentence_transformers.json", prompts={})
    assert sent(folder).before_query() == f"Instruct: {SEARCH}\nQuery: "
    assert sent(folder).origin == "models that pool the last token, by its pooling"


def test_prompts_behind_the_name_stand_for_what_is_recognised(family):
    folder = family("e5")
    assert sent(folder, ",query=find, x: ,document=").query == "find, x: "
    assert sent(folder, ",query=find, x: ,document=").document == ""
    assert sent(folder, ",query=ask: ").document == "passage: "
    assert sent(folder, ",query=Instruct: {instruction}\\nQuery: ").before_query("Why?") == "Instruct: Why?\nQuery: "
    assert sent(folder, ",query=,document=") == RolePrompts()


def test_fewer_dimensions_are_the_first_ones(family):
    folder = family("nomic")
    encoder, theirs = load_encoder(f"st:{folder},dim=8", device="cpu"), stock(folder)
    assert encoder.dim == encoder.spec.dim == 8
    close(encoder.encode(TEXTS), theirs.encode_document(TEXTS, prompt="search_document: ", truncate_dim=8))
    with pytest.raises(UsageError, match="has 32 dimensions, not 33"):
        load_encoder(f"st:{folder},dim=33", device="cpu")


@pytest.mark.parametrize(("options", "problem"), [("dim=0", "dim=0"), ("dim=x", "dim=x"), ("dim=2,dim=3", "twice")])
def test_options_that_make_no_sense_are_refused(options, problem):
    with pytest.raises(UsageError, match=problem):
        NamedModel.parse(f"name,{options}")


def test_a_folder_is_named_by_its_absolute_path(tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path)
    assert resolve_name("st:mine,dim=3") == f"st:{tmp_path / 'mine'},dim=3"
    assert resolve_name("inbedder:./mine") == f"inbedder:{tmp_path / 'mine'}"
    assert resolve_name("st:org/mine,dim=3") == "st:org/mine,dim=3"
    (tmp_path / "all-minilm-l6-v2").mkdir()
    assert resolve_name("st:all-minilm-l6-v2") == "st:all-minilm-l6-v2"


def test_a_language_model_without_modules_is_refused(copy):
    folder = copy("qwen3-embedding")
    (folder / "modules.json").unlink()
    with pytest.raises(EncoderError, match="a Qwen3ForCausalLM, a language model") as refused:
        load_encoder(f"st:{folder}", device="cpu")
    assert "modules.json and 1_Pooling" in refused.value.hint
    edit_json(folder / "config.json", architectures=["Qwen3Model"])
    with pytest.raises(EncoderError, match="a Qwen3Model, a language model"):
        load_encoder(f"st:{folder}", device="cpu")


def test_a_sentence_encoder_is_not_read_as_a_bare_language_model(family):
    with pytest.raises(EncoderError, match="a sentence-transformers model, with a pooling") as refused:
        load_encoder(f"plain:{family('qwen3-embedding')}", device="cpu")
    assert f"st:{family('qwen3-embedding')}" in refused.value.hint


def test_a_model_that_needs_its_own_code_is_refused_with_the_nearest_that_does_not(copy):
    folder = copy("e5")
    edit_json(folder / "config.json", model_type="new", auto_map={"AutoModel": "modeling.NewModel"})
    with pytest.raises(EncoderError, match=r"needs code that comes with it \(modeling.NewModel\)") as refused:
        load_encoder(f"st:{folder}", device="cpu")
    assert "gte-modernbert-base" in refused.value.hint
    edit_json(folder / "config.json", model_type="bert")
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["type"] = "custom_st.Transformer"
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(EncoderError, match=r"\(custom_st.Transformer\)"):
        load_encoder(f"st:{folder}", device="cpu")


def test_an_architecture_that_transformers_has_needs_no_code(copy):
    folder = copy("nomic")
    edit_json(folder / "config.json", auto_map={"AutoModel": "modeling_hf_nomic_bert.NomicBertModel"})
    assert load_encoder(f"st:{folder}", device="cpu").encode(TEXTS).shape == (4, 32)
    edit_json(folder / "config.json", num_experts=8)
    with pytest.raises(EncoderError, match="needs code that comes with it"):
        load_encoder(f"st:{folder}", device="cpu")


def test_a_model_that_ranks_known_examples_is_praised_by_silence():
    assert weaknesses(load_encoder("minilm", device="cpu")) == []


def test_examples_that_are_ranked_wrongly_are_counted_with_what_mends_it(family):
    encoder = load_encoder(f"st:{family('embedding-gemma')}", device="cpu")
    queries = encoder.encode_queries([triple.anchor for triple in TRIPLES])
    near, far = (encoder.encode([getattr(triple, which) for triple in TRIPLES]) for which in ("near", "far"))
    wrong = int(((queries * near).sum(axis=1) <= (queries * far).sum(axis=1)).sum())
    assert wrong
    (sentence,) = weaknesses(encoder)
    assert f"ranks {wrong} of 3 plain English examples wrongly: its pooling" in sentence


def test_a_missing_end_token_is_noticed(copy):
    folder = copy("qwen3-embedding")
    assert not any("end token" in sentence for sentence in weaknesses(load_encoder(f"st:{folder}", device="cpu")))
    edit_json(folder / "tokenizer.json", post_processor=None)
    assert "puts no end token there" in weaknesses(load_encoder(f"st:{folder}", device="cpu"))[0]


def test_a_folder_that_does_not_say_how_it_pools_is_noticed(copy):
    folder = copy("e5")
    (folder / "modules.json").unlink()
    assert "no modules.json, so its tokens are averaged" in weaknesses(load_encoder(f"st:{folder}", device="cpu"))[0]


def test_vectors_that_are_not_numbers_are_an_error(copy):
    folder = copy("nomic")
    weights = load_file(folder / "model.safetensors")
    save_file({name: values * float("nan") for name, values in weights.items()}, folder / "model.safetensors")
    encoder = load_encoder(f"st:{folder}", device="cpu")
    for read in (encoder.encode, encoder.encode_queries, lambda _: weaknesses(encoder)):
        with pytest.raises(EncoderError, match="vectors that are not numbers"):
            read(TEXTS)


def test_an_encoder_around_another_reads_queries_by_their_role(family):
    encoder = load_encoder(f"st:{family('embedding-gemma')}", device="cpu")
    expected = encoder.encode_queries(TEXTS)
    assert abs(expected - encoder.encode(TEXTS)).max() > 1e-2
    close(WrappedEncoder(encoder).encode_queries(TEXTS), expected)
    with BatchQueue() as queue:
        close(QueuedEncoder(encoder, queue).encode_queries(TEXTS), expected)
