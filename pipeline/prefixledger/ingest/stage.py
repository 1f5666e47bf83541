"""The ingest stage: from SOURCE arguments to a workspace and an account."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from prefixledger.engine import LocalEngine
from prefixledger.errors import InputError, PrefixledgerError, UsageError
from prefixledger.ingest.account import IngestSummary, InputAccount, Progress
from prefixledger.ingest.ahead import ReadAhead, WholeInput
from prefixledger.ingest.book import book_input
from prefixledger.ingest.clock import Axis
from prefixledger.ingest.container import Stream, head_digest
from prefixledger.ingest.detect import detect
from prefixledger.ingest.duplicates import Seen
from prefixledger.ingest.manifest import Manifest, locked, remove_orphans
from prefixledger.ingest.messages import check_rejects, detected_as, summed_up
from prefixledger.ingest.one_input import read_input
from prefixledger.ingest.options import IngestOptions
from prefixledger.ingest.overrides import Overrides, compile_names, load_aliases, named_in
from prefixledger.ingest.sources import resolve
from prefixledger.ingest.text.tools import load_tools
from prefixledger.ingest.write import remove_source
from prefixledger.mirror import publish

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from prefixledger.config.mapping import Mapping
    from prefixledger.engine import Engine
    from prefixledger.ingest.collect import Collected
    from prefixledger.ingest.detect import Detected
    from prefixledger.ingest.overrides import Aliases
    from prefixledger.ingest.reader import Context
    from prefixledger.ingest.sources import Source
    from prefixledger.ingest.text.tools import TextTools
    from prefixledger.workspace import Workspace

_KEPT_BYTES = 64 << 20
"""Input that a killed call reads again at most, in whole inputs: the book grows with them, and is written anew each time."""


def run_stage(
    sources: Sequence[str],
    workspace: Workspace,
    options: IngestOptions | None = None,
    progress: Callable[[Progress], None] | None = None,
    engine: Engine | None = None,
) -> IngestSummary:
    """Read logs into a workspace.

    Args:
        sources: Files, folders, patterns, or ``-`` for standard input.
        workspace: Where rows, paths, rejects and the manifest go.
        options: Choices; what is left out is found in the inputs.
        progress: Called after every chunk.
        engine: What parses; None: as many processes of this machine as the options say.

    Returns:
        What became of every record of every input.

    Raises:
        UsageError: The options or the inputs leave a question open that only the user can answer.
        InputError: An input that was named cannot be read, or is empty, or nothing at all could be used.
        TooManyRejectsError: More records were rejected than allowed; everything was written.
        NoRequestError: No record was bad, and none is a request.
        InternalError: An account does not close.
    """
    chosen = options or IngestOptions()
    mapping = _load_map(chosen)
    tools = load_tools(chosen)
    aliases = () if chosen.models is None else load_aliases(chosen.models)
    own = LocalEngine(chosen.jobs) if engine is None else None
    with locked(workspace) as aside, own or nullcontext():
        call = _Call(
            workspace, chosen, mapping, tools, aliases, aside, engine or own or LocalEngine(1), progress
        )
        call.find(resolve(sources, outside=workspace.root, outside_url=workspace.url))
        call.read()
    call.messages += summed_up(call.said)
    summary = IngestSummary(tuple(call.accounts), tuple(call.messages))
    check_rejects(summary, chosen)
    return summary


@dataclass(slots=True)
class _Found:
    source: Source
    detected: Detected
    stream: Stream | None
    raw_bytes: int | None
    version: tuple[int, ...] | None
    head: str | None
    """Digest of its beginning, where a task may read all of it ahead."""


@dataclass(slots=True)
class _Call:
    workspace: Workspace
    options: IngestOptions
    mapping: Mapping | None
    tools: TextTools
    aliases: Aliases
    aside: Path
    engine: Engine
    progress: Callable[[Progress], None] | None
    accounts: list[InputAccount] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    found: list[_Found] = field(default_factory=list)
    said: list[tuple[InputAccount, str]] = field(default_factory=list)
    seen: Seen | None = None
    ahead: ReadAhead | None = None
    bytes_before: int = 0
    bytes_total: int | None = 0

    def find(self, sources: Sequence[Source]) -> None:
        """Detect every input before any is read, so that a wrong argument costs nothing."""
        refusals: list[PrefixledgerError] = []
        for source in sources:
            try:
                self._find_one(source, alone=len(sources) == 1)
            except (InputError, UsageError) as refusal:
                if source.named:
                    raise
                refusals.append(refusal)
                self.messages.append(f"{source.label}: left out, {refusal.message}")
        if not self.found:
            raise refusals[0] if refusals else InputError("the inputs hold no record", place=sources[0].place)
        conversations = [entry for entry in self.found if entry.detected.reader.info.name == "weka"]
        others = [entry for entry in self.found if entry.detected.reader.info.name != "weka"]
        self.found = others + sorted(conversations, key=lambda entry: entry.source.label)
        self._introduce()
        sizes = [entry.raw_bytes for entry in self.found]
        self.bytes_total = None if None in sizes else sum(size or 0 for size in sizes)

    def _introduce(self) -> None:
        """Tell inputs whose files complete each other of all that can be opened twice."""
        related = [entry for entry in self.found if entry.detected.reader.info.companions]
        for entry in related:
            name = entry.detected.reader.info.name
            files = tuple(
                other.source.at
                for other in related
                if other.detected.reader.info.name == name and other.stream is None
            )
            context = replace(entry.detected.context, companions=files)
            entry.detected = replace(entry.detected, context=context)

    def _find_one(self, source: Source, *, alone: bool) -> None:
        stream = Stream(source)
        keep = False
        try:
            detected = detect(stream, self.options, self.mapping)
            if detected is None:
                # An empty file among others is what log rotation leaves behind.
                if source.named and (alone or stream.state.fault):
                    raise InputError(stream.state.fault or "it is empty", place=source.place)
                self.messages.append(f"{source.label}: empty")
                return
            keep = stream.state.raw_total is None  # a pipe cannot be opened twice
            raw_bytes, whole = stream.state.raw_total, self._read_whole(stream, detected) and not keep
            head = head_digest(stream) if whole else None
            self.found.append(
                _Found(source, detected, stream if keep else None, raw_bytes, stream.version, head)
            )
        finally:
            if not keep:
                stream.close()

    def _read_whole(self, stream: Stream, detected: Detected) -> bool:
        """Return whether tasks run apart, and none can read a part of an input."""
        parts = not stream.state.layers and detected.columnar is None and not detected.context.document
        return self.engine.remote and not parts

    def _read_ahead(self, manifest: Manifest) -> ReadAhead | None:
        """Return what reads inputs as whole tasks; of a single one the pieces that this process reads are tasks."""
        whole = [(number, entry) for number, entry in enumerate(self.found) if entry.head is not None]
        inputs = (
            WholeInput(
                number,
                entry.source.resolved(),
                replace(entry.detected, context=self._context(entry)),
                self.options.chunk_bytes,
                entry.raw_bytes,
                entry.head,
                self.aside / f"{number}.batches",
            )
            for number, entry in whole
            if entry.head is not None and (self.options.force or not manifest.has_head(entry.head))
        )
        return ReadAhead(self.engine, inputs) if len(whole) > 1 else None

    def read(self) -> None:
        """Read what was found, one input after the other; each is complete in the workspace before the next begins."""
        manifest = Manifest(self.workspace)
        remove_orphans(self.workspace, manifest)
        manifest.begin_call()
        axis = Axis(self.options, manifest.sources.values())
        self.ahead = self._read_ahead(manifest)
        ended, kept_at = False, 0
        try:
            for number, entry in enumerate(self.found):
                stream = entry.stream or self._opened_again(entry)
                if stream is None:
                    continue
                try:
                    self._read_or_recognise(number, stream, manifest, axis)
                finally:
                    stream.close()
                self.bytes_before += stream.state.raw_total or 0
                if self.bytes_before - kept_at >= _KEPT_BYTES:
                    kept_at = self.bytes_before
                    manifest.save(ended=False)
                    publish(self.workspace)
            ended = True
        finally:
            if self.ahead is not None:
                self.ahead.close()
            manifest.save(ended=ended)  # also after an interruption: what is complete stays

    def _opened_again(self, entry: _Found) -> Stream | None:
        """Open an input to read it; what was rotated into its place since it was detected is detected again.

        Returns:
            It; None where it is gone or empty now, and was not named by the user.

        Raises:
            InputError: It was named, and is gone or empty.
        """
        try:
            stream = Stream(entry.source)
            if stream.version != entry.version:
                self._detect_again(entry, stream)
        except InputError as refusal:
            if entry.source.named:
                raise
            self.messages.append(f"{entry.source.label}: left out, {refusal.message}")
            return None
        return stream

    def _detect_again(self, entry: _Found, stream: Stream) -> None:
        detected = detect(stream, self.options, self.mapping)
        if detected is None:
            stream.close()
            raise InputError("it was emptied while it was read", place=entry.source.place)
        known = entry.detected.context.companions
        entry.detected = replace(detected, context=replace(detected.context, companions=known))

    def _read_or_recognise(self, number: int, stream: Stream, manifest: Manifest, axis: Axis) -> None:
        entry = self.found[number]
        head = head_digest(stream)
        known = self._known(entry, stream, head, manifest)
        if known is not None:
            self._recognise(entry, known, manifest, axis)
            return
        if self.seen is None:
            self.seen = Seen(self.workspace.seen, manifest.sources)
        self._read_one(number, stream, head, manifest, axis)

    def _known(self, entry: _Found, stream: Stream, head: str, manifest: Manifest) -> InputAccount | None:
        """Return the account of an input that was read before, found without parsing it."""
        if self.options.force or not manifest.has_head(head) or stream.state.raw_total is None:
            return None
        again = Stream(entry.source)
        try:
            for _ in again.blocks():
                pass
        finally:
            again.close()
        return manifest.sources.get(again.name)

    def _read_one(self, number: int, stream: Stream, head: str, manifest: Manifest, axis: Axis) -> None:
        entry = self.found[number]
        if self.options.from_name is not None and self._named(entry.source) is None:
            self.messages.append(
                f"{entry.source.label}: its name does not fit --from-name, so nothing is taken from it"
            )
        same = stream.version == entry.version
        parsed = read_input(
            stream,
            replace(entry.detected, context=self._context(entry)),
            self.options,
            self.mapping,
            aside=self.aside,
            engine=self.engine,
            progress=self._report,
            read=self.ahead.batches(number, stream) if self.ahead is not None and same else None,
        )
        try:
            known = manifest.sources.get(parsed.source)
            if known is not None and not self.options.force:
                self._recognise(entry, known, manifest, axis)
                return
            if known is not None:
                self._forget(parsed.source, manifest, axis)
            clock = self.mapping.clock if self.mapping is not None else None
            assert self.seen is not None
            earlier = [scale for held in manifest.sources.values() for scale in held.text_scales]
            account = book_input(
                parsed, self.workspace, axis, self.seen, clock, self.options, self.tools, earlier
            )
        finally:
            parsed.collected.discard()
        axis.add(account)
        manifest.add(account, head)
        self.accounts.append(account)
        self.said.append((account, detected_as(account, entry.detected)))

    def _context(self, entry: _Found) -> Context:
        """Return what readers must know of an input, and what the caller knows better than it."""
        overrides = Overrides(self._named(entry.source) or (), self.aliases)
        return replace(entry.detected.context, text=self.tools.plan, overrides=overrides)

    def _named(self, source: Source) -> tuple[tuple[str, str], ...] | None:
        """Return what the name of an input says; None where it does not fit."""
        if self.options.from_name is None:
            return ()
        return named_in(source.label, compile_names(self.options.from_name))

    def _forget(self, source: str, manifest: Manifest, axis: Axis) -> None:
        """Remove an input that is about to be written again, so that it is no duplicate of itself."""
        axis.forget(source)
        manifest.forget(source)
        remove_source(self.workspace, source)
        self.seen = Seen(self.workspace.seen, manifest.sources)
        self.seen.forget(source)

    def _recognise(self, entry: _Found, known: InputAccount, manifest: Manifest, axis: Axis) -> None:
        """Take an input as it was read before: in an earlier call, or in this one before it was cut off."""
        if known.path != entry.source.label or not manifest.was_cut_off_after(known.source, known.path):
            self._seen_before(entry, known, manifest)
            return
        axis.forget(known.source)
        axis.add(known)
        manifest.note(known)
        self.accounts.append(known)
        self.messages.append(f"{known.path}: read before the command was cut off")

    def _seen_before(self, entry: _Found, known: InputAccount, manifest: Manifest) -> None:
        account = InputAccount(
            path=entry.source.label,
            source=known.source,
            format=known.format,
            why=known.why,
            bytes=known.bytes,
            records=known.records,
            kept=0,
            rejected=0,
            duplicates=known.records,
            joined=0,
            skipped=0,
            reasons={},
            truncated_at=known.truncated_at,
            seen_before=True,
            clock=known.clock,
        )
        manifest.note(account)
        self.accounts.append(account)
        # Whoever runs a command again reads of a log that is there, and not of 34,446 records that are wrong with it.
        same = known.path == account.path
        what = "seen before" if same else f"seen before as {known.path}"
        are = "are there and count once" if same else "are duplicates"
        self.messages.append(
            f"{account.path}: {what}, its {known.records:,} records {are} (--force reads it again)"
        )

    def _report(self, stream: Stream, collected: Collected) -> None:
        if self.progress is not None:
            records = sum(a.records for a in self.accounts) + len(collected.records.fate)
            rejects = sum(a.rejected for a in self.accounts) + collected.n_rejects
            done = self.bytes_before + stream.state.raw_done
            self.progress(Progress(stream.source.label, done, self.bytes_total, records, rejects))


def _load_map(options: IngestOptions) -> Mapping | None:
    if options.map_file is None:
        return None
    from prefixledger.config.mapping import load_mapping  # noqa: PLC0415  # keeps pydantic out of runs without a map

    return load_mapping(options.map_file)
