"""Every format that can be read, in the order in which they are recognised."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prefixledger.errors import UsageError
from prefixledger.ingest.readers.api_batch import ApiBatchReader
from prefixledger.ingest.readers.api_exchange import ApiExchangeReader
from prefixledger.ingest.readers.azure_lengths import AzureLengthsReader
from prefixledger.ingest.readers.azure_openai import AzureOpenAiReader
from prefixledger.ingest.readers.bailian import BailianReader
from prefixledger.ingest.readers.bedrock import BedrockReader
from prefixledger.ingest.readers.claude_code import ClaudeCodeReader
from prefixledger.ingest.readers.codex import CodexReader
from prefixledger.ingest.readers.dynamo import DynamoReader
from prefixledger.ingest.readers.engine_log import EngineLogReader
from prefixledger.ingest.readers.envoy import EnvoyReader
from prefixledger.ingest.readers.helicone import HeliconeReader
from prefixledger.ingest.readers.kv_events import KVEventsReader
from prefixledger.ingest.readers.langfuse import LangfuseReader
from prefixledger.ingest.readers.litellm import LiteLLMReader
from prefixledger.ingest.readers.litellm_spend import LiteLLMSpendReader
from prefixledger.ingest.readers.lmcache import LMCacheReader
from prefixledger.ingest.readers.mapped import MappedReader
from prefixledger.ingest.readers.mooncake import MooncakeReader
from prefixledger.ingest.readers.openinference import OpenInferenceReader
from prefixledger.ingest.readers.otel_genai import OTelGenAIReader
from prefixledger.ingest.readers.prometheus import PrometheusReader
from prefixledger.ingest.readers.sglang import SGLangReader
from prefixledger.ingest.readers.sglang_exporter import SGLangExporterReader
from prefixledger.ingest.readers.sglang_text import SGLangTextReader
from prefixledger.ingest.readers.usage_totals import UsageTotalsReader
from prefixledger.ingest.readers.vertex import VertexReader
from prefixledger.ingest.readers.vllm_text import VLLMTextReader
from prefixledger.ingest.readers.weka import WekaReader

if TYPE_CHECKING:
    from prefixledger.ingest.reader import Head, Reader

READERS: Final[tuple[Reader, ...]] = (
    DynamoReader(),
    BailianReader(),
    WekaReader(),
    MooncakeReader(),
    SGLangReader(),
    LMCacheReader(),
    ClaudeCodeReader(),
    CodexReader(),
    SGLangExporterReader(),
    LiteLLMReader(),
    LiteLLMSpendReader(),
    LangfuseReader(),
    OpenInferenceReader(),
    OTelGenAIReader(),
    HeliconeReader(),
    EnvoyReader(),
    KVEventsReader(),
    PrometheusReader(),
    SGLangTextReader(),
    VLLMTextReader(),
    EngineLogReader(),
    AzureLengthsReader(),
    BedrockReader(),
    AzureOpenAiReader(),
    VertexReader(),
    ApiBatchReader(),
    UsageTotalsReader(),
    ApiExchangeReader(),
    MappedReader(),
)
"""A format is added here, with a reader in ``readers/`` and a fixture in ``sample_traces/formats``."""

_BY_NAME: Final = {reader.info.name: reader for reader in READERS}


def reader_named(name: str) -> Reader:
    """Return the reader of one format.

    Raises:
        UsageError: There is none of that name; all names are given.
    """
    if name not in _BY_NAME:
        raise UsageError(f"there is no format {name!r}", hint=f"formats: {', '.join(_BY_NAME)}")
    return _BY_NAME[name]


def recognise(head: Head) -> tuple[Reader, str] | None:
    """Return the first reader that takes an input, and why."""
    for reader in READERS:
        why = reader.recognise(head)
        if why is not None:
            return reader, why
    return None
