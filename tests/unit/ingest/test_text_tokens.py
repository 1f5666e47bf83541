"""A tokenizer and a chat template give the keys that the engine has, and each text is tokenised once."""

from __future__ import annotations

import json
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from ingest_support import ingest, write_lines
from prefixledger.errors import UsageError
from prefixledger.ingest.prompts import text_parts
from prefixledger.ingest.text import tokenizers as loading
from prefixledger.ingest.text.template import MAX_RENDERED, load_template, render
from prefixledger.ingest.text.tokenizers import load_tokenizer
from twins import text_blocks

if TYPE_CHECKING:
    from pathlib import Path

    from ingest_support import Result

NOON_S = 1_795_953_600
WORDS = [f"w{number}" for number in range(200)]
START, END = "<|start|>", "<|end|>"
MAP = (
    'format = "jsonl"\nblock_size = 4\n[columns]\nstarted_at = { from = "ts", unit = "s" }\ntext = "prompt"\n'
    'prompt_tokens = "tokens"\n'
)
CHAT = (
    "{% for m in messages %}<|start|> {{ m.role }}\n{{ m.content }} <|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|> assistant\n{% endif %}"
)
THINK = (
    "{% set ns = namespace(last=0) %}"
    "{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}"
    "{% for m in messages %}<|start|> {{ m.role }} "
    "{% if m.role == 'assistant' and loop.index0 > ns.last %}w9 w9 {% endif %}{{ m.content }} <|end|>{% endfor %}"
)


@pytest.fixture
def vocabulary(tmp_path: Path) -> Path:
    """Return a tokenizer of 200 words and two special tokens, with the truncation that files of some models carry."""
    words = ["?", START, END, "system", "user", "assistant", *WORDS]
    held = Tokenizer(WordLevel({word: number for number, word in enumerate(words)}, unk_token="?"))
    held.pre_tokenizer = WhitespaceSplit()
    held.add_special_tokens([START, END])
    held.enable_truncation(8)
    held.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


def read(folder: Path, prompts: list[Any], template: str | None = None, **options: Any) -> Result:
    """Ingest prompts, blocks of 4 tokens."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "map.toml").write_text(MAP)
    if template is not None:
        (folder / "chat.jinja").write_text(template)
        options["template"] = folder / "chat.jinja"
    rows = [{"ts": NOON_S + at, "prompt": prompt} for at, prompt in enumerate(prompts)]
    return ingest(
        folder / "ws", write_lines(folder / "log.jsonl", rows), map_file=folder / "map.toml", **options
    )


def chat(*messages: str) -> list[dict[str, str]]:
    """Return messages, users and assistants in turn."""
    return [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(messages)]


def ids(vocabulary: Path, text: str) -> list[int]:
    """Return the ids of a whole text, the plain way."""
    held = Tokenizer.from_file(str(vocabulary))
    held.no_truncation()
    return list(held.encode(text, add_special_tokens=False).ids)


def rendered(messages: list[dict[str, str]]) -> str:
    """Return what ``CHAT`` makes of messages."""
    said = "".join(f"{START} {one['role']}\n{one['content']} {END}\n" for one in messages)
    return f"{said}{START} assistant\n"


def test_keys_are_those_of_the_whole_rendered_prompt(tmp_path: Path, vocabulary: Path) -> None:
    """Pieces are tokenised one by one, and the blocks are those of the prompt tokenised whole."""
    chats = [chat(*(" ".join(WORDS[at : at + 7 * turn]) for at in range(turn))) for turn in range(1, 9)]
    result = read(tmp_path, chats, CHAT, tokenizer=str(vocabulary))
    for row, messages in zip(result.requests, chats, strict=True):
        whole = ids(vocabulary, rendered(messages))
        assert result.labels(row) == text_blocks.token_labels(whole, 4)
        assert row["prompt_tokens"] == len(whole)
    scope = json.loads(result.requests[0]["namespace"])["scope"]
    assert scope.startswith("text:tokens:")
    assert not any("approximate" in note for note in result.account.notes)


def test_a_plain_prompt_is_cut_at_special_tokens_only(tmp_path: Path, vocabulary: Path) -> None:
    """A logged prompt that is templated already needs no template, and its turns are tokenised once each."""
    prompts = [
        rendered(chat(*(" ".join(WORDS[at : at + 30]) for at in range(turn)))) for turn in range(1, 12)
    ]
    result = read(tmp_path, prompts, tokenizer=str(vocabulary))
    for row, prompt in zip(result.requests, prompts, strict=True):
        assert result.labels(row) == text_blocks.token_labels(ids(vocabulary, prompt), 4)


def test_each_distinct_message_is_tokenised_once(
    tmp_path: Path, vocabulary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twelve turns repeat their history eleven times; the tokenizer sees every text once, and the note says the share."""
    seen: list[bytes] = []
    plain = loading._FileTokenizer.encode

    def counted(self: Any, texts: Any) -> Any:
        seen.extend(texts)
        return plain(self, texts)

    monkeypatch.setattr(loading._FileTokenizer, "encode", counted)
    texts = [" ".join(WORDS[at * 9 : at * 9 + 9]) for at in range(12)]
    result = read(tmp_path, [chat(*texts[:turn]) for turn in range(1, 13)], tokenizer=str(vocabulary))
    assert sorted(seen) == sorted(text.encode() for text in texts)
    note = next(note for note in result.account.notes if note.startswith("text tokenised by tokenizer.json"))
    assert "after de-duplication" in note
    assert any("without a chat template" in note for note in result.account.notes)


def test_a_template_shows_the_history_that_it_rewrites(tmp_path: Path, vocabulary: Path) -> None:
    """Messages only grow, but the template drops the thinking marks of old turns: the render is what is compared."""
    roles = ["user", "assistant", "tool", "assistant", "tool", "assistant", "user"]
    said = [
        {"role": role, "content": " ".join(WORDS[at * 12 : at * 12 + 12])} for at, role in enumerate(roles)
    ]
    result = read(tmp_path / "think", [said[:6], said], THINK, tokenizer=str(vocabulary))
    one, two = (result.labels(row) for row in result.requests)
    assert next(at for at, (a, b) in enumerate(zip(one, two, strict=False)) if a != b) == (15 + 2) // 4
    plain = read(tmp_path / "plain", [said[:6], said], CHAT.partition("{% if")[0], tokenizer=str(vocabulary))
    one, two = (plain.labels(row) for row in plain.requests)
    assert two[: len(one)] == one


def test_the_logged_length_wins_over_the_counted_one(tmp_path: Path, vocabulary: Path) -> None:
    """Where the log says 9 tokens and the text has 20, two blocks have keys."""
    (tmp_path / "map.toml").write_text(MAP)
    log = write_lines(tmp_path / "log.jsonl", [{"ts": NOON_S, "prompt": " ".join(WORDS[:20]), "tokens": 9}])
    result = ingest(tmp_path / "ws", log, map_file=tmp_path / "map.toml", tokenizer=str(vocabulary))
    assert (result.requests[0]["prompt_tokens"], result.requests[0]["n_blocks"]) == (9, 2)


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{{ strftime_now.__self__.__class__ }}{{ lipsum.__globals__['os'] }}",
        "{{ messages.append(1) }}",
        "{% include '/etc/passwd' %}",
        "{{ 'a' * 10000000000 }}",
        "{{ [0] * 10000000000 }}",
        "{{ 9 ** 9 ** 9 }}",
        "{% for i in range(100000) %}{{ 'a' * 100000 }}{% endfor %}",
        "{% for i in range(1000000000) %}{% endfor %}",
        "{{ raise_exception(messages[0].content) }}",
        "{{ 1 / 0 }}",
    ],
)
def test_a_hostile_template_reaches_nothing(tmp_path: Path, template: str) -> None:
    """It can only fail: the record is rejected, and no word of the prompt is in the reason."""
    result = read(tmp_path, [chat("very secret words")], template)
    (reject,) = result.rejects
    assert reject["reason"].startswith("template: ")
    assert "secret" not in reject["reason"] + reject["excerpt"]
    assert MAX_RENDERED < 10_000_000_000


def test_a_template_sees_the_blocks_of_a_message_together() -> None:
    """Each block is a part of its own, for the marks behind it; the template gets the one message that was sent."""
    blocks = [{"type": "text", "text": "a"}, {"type": "image", "source": "b"}, {"type": "text", "text": "c"}]
    said = [{"role": "user", "content": blocks}, {"role": "user", "content": "d"}]
    source = (
        "{% for one in messages %}<{% for block in one.content %}{{ block.text }}|{% endfor %}>{% endfor %}"
    )
    assert render(source, text_parts({"messages": said}), 0) == b"<a||c|><|>"


def test_a_date_in_a_template_is_that_of_the_request(tmp_path: Path) -> None:
    """``strftime_now`` reads no clock: the same log gives the same keys on every day."""
    day = "{{ strftime_now('%Y-%m-%d') }}" + "{{ messages[0].content }}"
    one = read(tmp_path / "a", [chat("w" * 300)], day)
    two = read(tmp_path / "b", [chat("w" * 300)], "2026-11-29{{ messages[0].content }}")
    labels = [result.labels(result.requests[0]) for result in (one, two)]
    assert labels[0] == labels[1]


def test_what_is_no_template_or_tokenizer_is_said_before_anything_is_read(tmp_path: Path) -> None:
    """The place and the line of a broken template; the names that exist; a vocabulary that is not here."""
    (tmp_path / "bad.jinja").write_text("fine\n{% for %}")
    with pytest.raises(UsageError, match="it is no template") as caught:
        load_template(tmp_path / "bad.jinja")
    assert caught.value.place is not None
    assert caught.value.place.line == 2
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(UsageError, match="it is no tokenizer"):
        load_tokenizer(str(tmp_path / "tokenizer.json"))
    with pytest.raises(UsageError, match="cannot be read"):
        load_tokenizer(str(tmp_path / "none.json"))


def test_without_the_libraries_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both libraries are optional."""
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(UsageError) as caught:
        load_tokenizer(str(tmp_path / "tokenizer.json"))
    assert "prefixledger[tokenizers]" in str(caught.value)
    with pytest.raises(UsageError) as caught:
        load_tokenizer("o200k_base")
    assert "prefixledger[tiktoken]" in str(caught.value)


class _Encoding:
    """Stands in for an encoding of tiktoken: one token a byte."""

    name = "tiny"
    _mergeable_ranks = {bytes([one]): one for one in range(256)}  # noqa: RUF012
    _pat_str = "."
    _special_tokens = {"<|end|>": 256}  # noqa: RUF012
    special_tokens_set = frozenset({"<|end|>"})

    def encode_batch(self, texts: list[str], **_: object) -> list[list[int]]:
        return [list(text.encode()) for text in texts]


def test_an_encoding_by_name_is_never_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes from a cache on this machine, or the user is told where to put it; an unknown name lists those known."""
    library, load = ModuleType("tiktoken"), ModuleType("tiktoken.load")
    (tmp_path / "tiny").write_bytes(b"")
    read: list[str] = []
    places = {"tiny": str(tmp_path / "tiny"), "far": "https://example.org/far.tiktoken"}

    def get(name: str) -> _Encoding:
        read.append(name)
        load.read_file(places[name])  # type: ignore[attr-defined]
        return _Encoding()

    def fetch(place: str) -> bytes:
        raise AssertionError(place)

    for module, name, value in (
        (load, "read_file", fetch), (library, "load", load), (library, "get_encoding", get),
        (library, "list_encoding_names", lambda: ["tiny", "far"]),
    ):  # fmt: skip
        setattr(module, name, value)
    monkeypatch.setitem(sys.modules, "tiktoken", library)
    monkeypatch.setitem(sys.modules, "tiktoken.load", load)
    found = load_tokenizer("tiny")
    assert [ids.tolist() for ids in found.encode([b"hi", b"\xed\xa0\x80"])] == [
        [104, 105],
        list(rb"\xed\xa0\x80"),
    ]
    assert found.specials == ("<|end|>",)
    with pytest.raises(UsageError, match="nothing is fetched"):
        load_tokenizer("far")
    with pytest.raises(UsageError, match="no tokenizer 'near'") as caught:
        load_tokenizer("near")
    assert "far, tiny" in str(caught.value.hint)
    assert load.read_file is fetch  # type: ignore[attr-defined]
