"""Every format that can be read, in the order in which they are recognised."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prefixledger.errors import UsageError
from prefixledger.ingest.readers.azure_lengths import AzureLengthsReader
from prefixledger.ingest.readers.bailian import BailianReader
from prefixledger.ingest.readers.dynamo import DynamoReader
from prefixledger.ingest.readers.mapped import MappedReader
from prefixledger.ingest.readers.mooncake import MooncakeReader
from prefixledger.ingest.readers.sglang import SGLangReader
from prefixledger.ingest.readers.weka import WekaReader

if TYPE_CHECKING:
    from prefixledger.ingest.reader import Head, Reader

READERS: Final[tuple[Reader, ...]] = (
    DynamoReader(),
    BailianReader(),
    WekaReader(),
    MooncakeReader(),
    SGLangReader(),
    AzureLengthsReader(),
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
