"""Prices of tokens as a scenario or a rate file states them."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

from pydantic import BeforeValidator, Discriminator, Field, Tag

from prefixledger.config.toml_file import Part

PREFILL_TOKENS = "prefill tokens"


def _decimal(value: object) -> object:
    # Through the shortest text of the float, so that 0.1 in the file is 0.1 and not 0.1000000000000000055.
    return Decimal(str(value)) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


Amount = Annotated[Decimal, BeforeValidator(_decimal), Field(ge=0, allow_inf_nan=False)]


class Rates(Part):
    """Prices of tokens.

    Attributes:
        base: Price of uncached input, per million tokens (per token where the currency is "prefill tokens").
        write: Price of a written token over an uncached one.
        read: Price of a token read from cache over an uncached one.
        output: Price of output, in the unit of ``base``.
        currency: What the prices are in.
    """

    base: Amount
    write: Amount
    read: Amount
    output: Amount
    currency: Annotated[str, Field(min_length=1)] = "USD"

    @property
    def per_tokens(self) -> int:
        """How many tokens ``base`` and ``output`` pay for."""
        return 1 if self.currency == PREFILL_TOKENS else 1_000_000


ENGINE_RATES = Rates(
    base=Decimal(1), write=Decimal(1), read=Decimal(0), output=Decimal(0), currency=PREFILL_TOKENS
)


class Pricing(Part):
    """What tokens cost: a rate card, or the price of the GPU hours that prefill takes."""

    rates: (
        Annotated[
            Annotated[str, Tag("name")] | Annotated[Rates, Tag("rates")],
            Discriminator(lambda value: "name" if isinstance(value, str) else "rates"),
        ]
        | None
    ) = None
    gpu_hour: Amount | None = None
    prefill_tokens_per_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None

    def over(self, general: Pricing) -> Pricing:
        """Return these prices, taking from ``general`` what is not given here."""
        own = {name: value for name, value in self if value is not None}
        return general.model_copy(update=own)
