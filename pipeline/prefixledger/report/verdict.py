"""The verdict in one sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prefixledger.config.pricing import PREFILL_TOKENS
from prefixledger.report.books import AVOIDABLE
from prefixledger.report.caveats import caveats_of, refused_share
from prefixledger.report.concentration import NEARLY_ALL, Stretch, burst_of_new_text, place, where_and_when
from prefixledger.report.glossary import CAUSE_TERMS
from prefixledger.report.numbers import amount, clean, count, located, money, percent, points, span, whole

if TYPE_CHECKING:
    from prefixledger.report.books import Book
    from prefixledger.report.view import ReportView, Result

_LITTLE = 0.001
"""Below 0.1 % of the tokens a loss is not worth a sentence."""


_UNSTORED = {
    "no_breakpoint": "that no mark asks to be cached",
    "below_minimum": "shorter than what is cached",
}
"""Why a hosted cache stores nothing of a prompt."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a reader who stops after the first screen must know.

    Attributes:
        state: ``empty``, ``single``, ``cold``, ``best`` or ``loss``.
        sentence: The verdict.
        caveats: What it rests on and what it cannot show, one sentence each.
    """

    state: str
    sentence: str
    caveats: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Loss:
    """What lost the most tokens.

    Attributes:
        cause: Its cause.
        tokens: Missed tokens.
        burst: Set where it is text that was new all at once, which a changed beginning of the prompts would look like.
    """

    cause: str
    tokens: int
    burst: Stretch | None = None


def largest_loss(view: ReportView) -> Loss | None:
    """Return the largest loss that can be acted on, or at least looked into; None where there is none.

    New text is no loss, unless it came in a burst while the hit rate fell.
    """
    book = view.result.headline
    found = [Loss(c, book.misses[c]) for c in (*AVOIDABLE, "unexplained") if book.misses.get(c, 0)]
    burst = burst_of_new_text(view)
    if burst is not None:
        found.append(Loss("cold", round(burst.share * book.misses["cold"]), burst))
    loss = max(found, key=lambda one: one.tokens, default=None)
    return loss if loss is not None and loss.tokens >= _LITTLE * book.prompt_tokens else None


def verdict(view: ReportView) -> Verdict:
    """Judge the window in one sentence."""
    result, book = view.result, view.result.headline
    caveats = caveats_of(view)
    if not book.prompt_tokens:
        return Verdict("empty", _empty(view), caveats)
    if result.total.requests == 1:
        sentence = (
            f"Only one request falls into this window: {percent(book.token_hit_rate)} of its "
            f"{whole(book.prompt_tokens)} prompt tokens came from cache, and one request says nothing about a cache."
        )
        return Verdict("single", sentence, caveats)
    if result.ideal_hit_tokens == 0 and not book.hit_tokens:
        sentence = _unstored(result) or _unshared(result)
        return Verdict("cold", sentence, caveats)
    loss = largest_loss(view)
    if loss is None:
        return Verdict("best", f"{_of_result(result)}{_nothing_lost(result)}.", caveats)
    return Verdict("loss", f"{_of_result(result)}; {_lost(view, loss)}.", caveats)


def _unstored(result: Result) -> str:
    """Say that the rules of a hosted cache stored nothing; empty where that is not why there were no hits."""
    book = result.headline
    told = []
    for detail, words in _UNSTORED.items():
        tokens = sum(one.tokens for one in result.details if one.detail == detail)
        if tokens >= _LITTLE * book.prompt_tokens:
            told.append(f"{percent(tokens / book.prompt_tokens)} are of prompts {words}")
    if not told:
        return ""
    return (
        f"Nothing was stored, so none of the {amount(book.prompt_tokens)} prompt tokens of {whole(book.requests)} requests came "
        f"from cache, whether they share a beginning or not: {' and '.join(told)}."
    )


def _unshared(result: Result) -> str:
    book = result.headline
    return (
        f"Nothing could be reused: no two prompts of the {whole(book.requests)} requests begin with the same full block, so none "
        f"of the {amount(book.prompt_tokens)} prompt tokens came from cache and no cache setting would change that."
    )


def _empty(view: ReportView) -> str:
    """Say why there is nothing to judge, and what to do about it where something can be done."""
    result = view.result
    records = sum(source.records for source in view.sources)
    if result.failed_requests:
        failed = result.failed_requests
        return f"No request of this window reached a cache: {_all_of(failed, f'all {whole(failed)} of them', 'the only one')} failed."
    if result.total.requests:
        asked = result.total.requests
        none = _all_of(
            asked,
            f"None of the {whole(asked)} requests of this window has a prompt",
            "The only request of this window has no prompt",
        )
        return f"{none}, so there is no rate."
    if result.unmeasured_requests:
        return (
            f"Nothing can be said of the {count(result.unmeasured_requests, 'request')} of this window: the log carries neither "
            "what prompts are made of nor what was read from cache."
        )
    if not records:
        why = f": {clean(view.unread, 400)}" if view.unread else ""
        return f"Nothing {'could be' if why else 'was'} read, so there is nothing to judge{why}."
    if records == sum(source.rejected for source in view.sources):
        every = _all_of(records, f"Every one of the {whole(records)} records", "The only record")
        return (
            f"{every} was rejected, so there is nothing to judge: name the format with "
            '--format or the columns with --map; "prefixledger formats" lists what can be read.'
        )
    return "No request falls into this window, so there is nothing to judge: choose another with --from and --to."


def _all_of(number: int, many: str, one: str) -> str:
    return one if number == 1 else many


def brief(book: Book, ideal: float | None, *, unlimited: bool) -> str:
    """Say in the words of the verdict what a replay comes to, where nothing but its account is known.

    Args:
        book: Its account.
        ideal: Ideal hit rate.
        unlimited: Whether no cache had a limit.
    """
    if not book.prompt_tokens:
        return "No request asked a cache for anything, so there is nothing to judge."
    found = [Loss(cause, book.misses[cause]) for cause in AVOIDABLE if book.misses.get(cause, 0)]
    loss = max(found, key=lambda one: one.tokens, default=None)
    text = _opening(book, ideal, unlimited=unlimited)
    if loss is None or loss.tokens < _LITTLE * book.prompt_tokens:
        return f"{text}."
    size = f"{points(loss.tokens / book.prompt_tokens)} ({amount(loss.tokens)} tokens)"
    return f"{text}; the largest loss is {CAUSE_TERMS[loss.cause].loss}, {size}."


def _of_result(result: Result) -> str:
    return _opening(result.headline, result.ideal_hit_rate, unlimited=result.setup.unlimited)


def _opening(book: Book, ideal: float | None, *, unlimited: bool) -> str:
    share, asked = percent(book.token_hit_rate), f"{amount(book.prompt_tokens)} prompt tokens"
    if book.basis == "observed":
        opening = f"The service itself logged {share} of {asked} as read from cache"
    elif unlimited:
        opening = f"In a replay without a memory limit, {share} of {asked} came from cache"
    else:
        opening = f"In the replay, {share} of {asked} came from cache"
    if ideal is None:
        return f"{opening}, and how much was within reach cannot be told without keys"
    if ideal - (book.token_hit_rate or 0.0) < -_LITTLE:
        return f"{opening}, more than the {percent(ideal)} that the rules of the replay let this log have"
    if ideal - (book.token_hit_rate or 0.0) < _LITTLE:
        return f"{opening}, which is all that was within reach ({percent(ideal)})"
    return f"{opening} and {percent(ideal)} was within reach"


def _nothing_lost(result: Result) -> str:
    ideal, book = result.ideal_hit_rate, result.headline
    if ideal is not None and ideal - (book.token_hit_rate or 0.0) < _LITTLE:
        return ""
    if refused_share(result) >= _LITTLE:
        return (
            "; what is missing is of prompts larger than the whole cache, so more capacity would change that"
        )
    return "; no cause that a change could remove took 0.1 % of the tokens"


def _lost(view: ReportView, loss: Loss) -> str:
    result, book = view.result, view.result.headline
    size = points(loss.tokens / book.prompt_tokens)
    if loss.burst is not None:
        when, spot = span(loss.burst.from_us, loss.burst.to_us, view.window), place(view.breakdowns, "cold")
        where = "" if spot is None else f", nearly all {located(spot[0], spot[1].value)}"
        if spot is not None and spot[2] < NEARLY_ALL:
            where = f", mostly {located(spot[0], spot[1].value)}"
        return (
            f"the largest drop, {size} ({amount(loss.tokens)} tokens), is of prompts that were new to the cache "
            f"{when}{where}: unless their text was new, its beginning had changed"
        )
    extent = f"{size} ({amount(loss.tokens)} tokens{_price(result, loss.cause)})"
    if loss.cause == "unexplained":
        text = f"the largest loss, {extent}, has no explanation in the log"
    else:
        text = f"the largest loss is {CAUSE_TERMS[loss.cause].loss}, {extent}"
    return text + where_and_when(view, loss.cause, "it")


def _price(result: Result, cause: str) -> str:
    priced = [c for c in result.costs if c.currency != PREFILL_TOKENS and c.by_cause.get(cause)]
    return "".join(f", {money(c.by_cause[cause], c.currency)}" for c in priced)
