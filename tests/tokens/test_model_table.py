"""From a model's name to how it counts and how much it reads; a name it does not know is never guessed."""

from __future__ import annotations

import threading

import pytest

from turnfold import Budget, Memory
from turnfold.errors import InvalidOption, UnknownModel
from turnfold.records import user
from turnfold.tokens import (
    Certainty,
    ModelInfo,
    context_window_for,
    counter_for,
    find_model,
    register_model,
)
from turnfold.tokens import (
    model_table as models,
)

EXACT, ESTIMATE = Certainty.EXACT, Certainty.ESTIMATE

KNOWN = [
    ("gpt-4o", "o200k_base", 128_000),
    ("GPT-4o", "o200k_base", 128_000),
    (" gpt-4o ", "o200k_base", 128_000),
    ("gpt-4o-2024-08-06", "o200k_base", 128_000),
    ("openai/gpt-4o", "o200k_base", 128_000),
    ("openrouter/openai/gpt-4o:free", "o200k_base", 128_000),
    ("ft:gpt-4o-mini-2024-07-18:acme::abc", "o200k_base", 128_000),
    ("gpt-4o-mini", "o200k_base", 128_000),
    ("gpt-4", "cl100k_base", 8_192),
    ("gpt-4-0613", "cl100k_base", 8_192),
    ("gpt-4-32k-0613", "cl100k_base", 32_768),
    ("gpt-4-turbo-2024-04-09", "cl100k_base", 128_000),
    ("gpt-4.1-nano", "o200k_base", 1_047_576),
    ("gpt-4.5-preview", "o200k_base", 128_000),
    ("gpt-5-mini", "o200k_base", 400_000),
    ("gpt-5.1", "o200k_base", 400_000),
    ("gpt-3.5-turbo", "cl100k_base", 16_385),
    ("gpt-3.5-turbo-0613", "cl100k_base", 4_096),
    ("gpt-35-turbo", "cl100k_base", 4_096),
    ("o1-preview", "o200k_base", 128_000),
    ("o3-mini", "o200k_base", 200_000),
    ("gpt-oss-120b", "gpt_oss", 131_072),
    ("meta-llama/Llama-3.3-70B-Instruct", "llama3", 131_072),
    ("meta-llama/Meta-Llama-3-8B", "llama3", 8_192),
    ("llama3.1:8b", "llama3", 131_072),
    ("Qwen/Qwen3-32B", "qwen3", 32_768),
    ("qwen2.5:7b", "qwen3", 32_768),
    ("qwen-plus", "qwen3", 131_072),
    ("qwen-flash", "qwen3", 1_000_000),
    ("qwen3-max-preview", "qwen3", 262_144),
    ("Qwen/Qwen3-Coder-480B-A35B-Instruct", "qwen3", 262_144),
    ("qwen3-coder-plus", "qwen3", 1_000_000),
    ("deepseek-chat", "deepseek_v3", 131_072),
    ("deepseek-ai/DeepSeek-V3-0324", "deepseek_v3", 65_536),
    ("deepseek-ai/DeepSeek-V3.1", "deepseek_v3", 131_072),
    ("deepseek-ai/DeepSeek-R1-Distill-Llama-70B", "llama3", 65_536),
    ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "qwen3", 65_536),
    ("deepseek-ai/DeepSeek-R1-0528", "deepseek_v3", 65_536),
    ("deepseek-ai/DeepSeek-R1-0528-Qwen3-8B", "qwen3", 65_536),
    ("deepseek-r1:1.5b", "qwen3", 65_536),
    ("deepseek-r1:7b", "qwen3", 65_536),
    ("deepseek-r1:7b-qwen-distill-q4_K_M", "qwen3", 65_536),
    ("deepseek-r1:32b", "qwen3", 65_536),
    ("deepseek-r1:8b-llama-distill-q4_K_M", "llama3", 65_536),
    ("deepseek-r1:8b-0528-qwen3-q8_0", "qwen3", 65_536),
    ("deepseek-r1:70b", "llama3", 65_536),
    ("deepseek-r1:671b", "deepseek_v3", 65_536),
    ("hf.co/bartowski/DeepSeek-R1-Distill-Qwen-7B-GGUF:Q4_K_M", "qwen3", 65_536),
    ("qwq:32b", "qwen3", 32_768),
    ("glm4:9b", "glm4", 131_072),
    ("gemini-2.5-pro", "gemma3", 1_048_576),
    ("google/gemma-3-27b-it", "gemma3", 131_072),
    ("google/gemma-2-9b", "gemma2", 8_192),
    ("open-mistral-nemo", "mistral_v3", 131_072),
    ("zai-org/GLM-4.5-Air", "glm4", 131_072),
    ("moonshotai/Kimi-K2-Instruct", "kimi_k2", 131_072),
    ("moonshotai/Kimi-K2-Instruct-0905", "kimi_k2", 262_144),
    ("kimi-k2-thinking-turbo", "kimi_k2", 262_144),
]
SISTERS = [
    ("glm-4.6", 200_000),
    ("glm-4.7-flash", 200_000),
    ("zai-org/GLM-5", 200_000),
    ("glm-5.1", 200_000),
    ("glm-5.2", 1_000_000),
    ("qwen-long", 10_000_000),
    ("qwen3.5-plus-02-15", 1_000_000),
    ("Qwen/Qwen3.5-397B-A17B", 262_144),
    ("qwen3.7-max", 1_000_000),
    ("deepseek-v4-flash", 1_000_000),
    ("kimi-k2.5", 262_144),
    ("moonshot-v1-8k", 8_192),
    ("google/gemma-4-31b-it", 131_072),
    ("mistral-medium-latest", 131_072),
    ("gemini-flash-latest", 1_048_576),
]
"""Models whose vocabulary is that of a sister with a margin, and whose window is published."""
ONLY_FAMILY = "glm-4.6v glm-9 qwen-vl-max qwen9 deepseek-coder kimi-k9 moonshot-v9 gemini-9 gemma-9 mistral-saba"


@pytest.mark.parametrize(("name", "encoding", "window"), KNOWN, ids=[row[0] for row in KNOWN])
def test_a_known_name_counts_exactly(name: str, encoding: str, window: int) -> None:
    counter = counter_for(name)
    assert (counter.text.name, counter.text.certainty) == (encoding, EXACT)
    assert counter.framing.name != "generic"
    assert context_window_for(name) == window


@pytest.mark.parametrize(
    "name",
    [
        "claude-sonnet-4-5",
        "anthropic/claude-3-5-haiku",
        "us.anthropic.claude-3-5-sonnet-20240620-v1:0",
    ],
)
def test_claude_is_an_estimate_above_a_public_vocabulary(name: str) -> None:
    counter = counter_for(name)
    assert counter.text.certainty is counter.framing.certainty is ESTIMATE
    text = "先把旧的对话折叠起来, then go on." * 5
    assert counter.count_text(text) > 1.3 * counter_for("gpt-4o").count_text(text)
    assert context_window_for(name) == 200_000


@pytest.mark.parametrize(
    "name",
    "qwen3.5-plus gemma-4-31b gemini-9 deepseek-coder-6.7b mistral-7b-instruct glm-4v moonshot-v1-8k "
    "deepseek-r1 deepseek-r1:latest deepseek-r1:8b deepseek-coder:6.7b mistral:7b mistral:latest".split(),
)
def test_a_sister_model_is_an_estimate_not_an_exact_count(name: str) -> None:
    """Its family is known and its vocabulary is another one."""
    assert counter_for(name).text.certainty is ESTIMATE
    assert counter_for(name).count([user("hi")]).certainty is ESTIMATE


@pytest.mark.parametrize("name", ["mistral:7b", "deepseek-coder:6.7b", "deepseek-llm:7b"])
def test_a_model_with_a_small_vocabulary_is_not_counted_like_a_newer_sister(name: str) -> None:
    """Vocabularies of 32,000 entries cost more than those of the newer models of the same maker."""
    text = "先把旧的对话折叠起来，再继续谈价格。" * 5
    newer = counter_for("mistral-nemo" if name.startswith("mistral") else "deepseek-chat")
    assert counter_for(name).count_text(text) > 1.3 * newer.count_text(text)


@pytest.mark.parametrize(("name", "window"), SISTERS, ids=[row[0] for row in SISTERS])
def test_a_sister_model_has_its_own_window(name: str, window: int) -> None:
    assert counter_for(name).text.certainty is ESTIMATE
    assert context_window_for(name) == window


@pytest.mark.parametrize("name", ONLY_FAMILY.split())
def test_a_model_of_which_only_the_family_is_known_has_no_window(name: str) -> None:
    """Its tokens are counted like those of its sisters; the window of an older one could be a twentieth of its own."""
    assert counter_for(name).framing.name != "generic"
    with pytest.raises(UnknownModel, match=f"context window of '{name}' is not known"):
        context_window_for(name)
    with pytest.raises(UnknownModel, match=r"budget=Budget\(max_tokens=8000\)"):
        Memory(model=name)
    with Memory(model=name, budget=Budget(max_tokens=8_000)) as memory:
        assert memory.budget.max_tokens == 8_000


@pytest.mark.parametrize(
    "name", ["unheard-of", "", "llama-30b", "o10", "gpt-40", "my-gpt-4o", "gp"]
)
def test_an_unknown_name_is_counted_by_the_estimator_and_has_no_window(name: str) -> None:
    assert find_model(name) is None
    counter = counter_for(name)
    assert (counter.text.certainty, counter.framing.name) == (ESTIMATE, "generic")
    assert counter.count_text("hello there") > 0
    with pytest.raises(UnknownModel) as caught:
        context_window_for(name)
    assert repr(name) in str(caught.value)
    assert str(caught.value).endswith("add the model with turnfold.tokens.register_model")


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModelInfo]:
    """The table of this process, put back afterwards."""
    copy = dict(models._models)
    monkeypatch.setattr(models, "_models", copy)
    return copy


@pytest.mark.usefixtures("table")
def test_a_registered_model_is_found_by_its_beginning() -> None:
    info = ModelInfo(context_window=50_000, encoding="llama3")
    register_model("Acme/House-Model", info)
    for name in ("house-model", "acme/house-model-2", "HOUSE-MODEL-large", "house-modelling"):
        assert find_model(name) is info
    assert context_window_for("house-model-2") == 50_000
    assert counter_for("house-model").text.name == "llama3"


@pytest.mark.usefixtures("table")
def test_the_longest_beginning_wins_and_a_row_can_be_replaced() -> None:
    small, large = ModelInfo(context_window=1), ModelInfo(context_window=2)
    register_model("house", small)
    register_model("house-large", large)
    assert (find_model("house-small"), find_model("house-large-2")) == (small, large)
    register_model("gpt-4o", small)
    assert context_window_for("gpt-4o-2024-08-06") == 1


@pytest.mark.parametrize("name", ["", "  ", "acme/", "ft:"])
def test_a_name_that_would_match_everything_is_refused(name: str) -> None:
    with pytest.raises(InvalidOption, match="the model's name is"):
        register_model(name, ModelInfo(context_window=1))
    assert find_model("unheard-of") is None


def test_impossible_models_are_refused() -> None:
    with pytest.raises(InvalidOption, match="context_window=0 must be at least 1"):
        ModelInfo(context_window=0)
    with pytest.raises(InvalidOption, match="unknown encoding 'gpt2'; known: cl100k_base"):
        ModelInfo(context_window=1, encoding="gpt2")
    with pytest.raises(InvalidOption, match="scale factor=-1 must be above 0"):
        ModelInfo(context_window=1, encoding="llama3", factor=-1).counter()


def test_registering_while_others_look_up(table: dict[str, ModelInfo]) -> None:
    stop = threading.Event()
    failures: list[BaseException] = []

    def look_up() -> None:
        try:
            while not stop.is_set():
                find_model("gpt-4o")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=look_up) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(300):
        register_model(f"house-{number}x", ModelInfo(context_window=1))
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(table) >= 300


@pytest.mark.parametrize("name", sorted(models._models))
def test_every_row_makes_a_counter(name: str) -> None:
    info = find_model(name)
    assert info is not None
    assert info is models._models[name]
    assert info.counter().framing is info.framing
    assert info.context_window is None or info.context_window >= 4_096
