"""Prices of tokens as a scenario or a rate file states them."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from prefixledger.config.toml_file import Part, refusal

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


SharedWrites = Literal["first", "per-read"]


class Pricing(Part):
    """What tokens cost: a rate card, or the price of the GPU hours that prefill takes.

    Attributes:
        rates: Rates, the name of one model, or ``by-model``.
        gpu_hour: Price of a GPU hour, with ``prefill_tokens_per_s`` in place of rates.
        prefill_tokens_per_s: What one GPU prefills.
        discount: Share that a contract takes off, 0 to 1.
        region_factor: What the region, or that data stay in it, makes of every price.
        batch_factor: What a request in a batch pays of the price; absent: what the price list says of batches.
        currency: What amounts are shown in, with ``exchange_rate``.
        exchange_rate: Units of ``currency`` for one unit that the rates are in.
        shared_writes: Who pays for what several use: ``first`` who writes it, ``per-read`` everybody who asks for it.
    """

    rates: (
        Annotated[
            Annotated[str, Tag("name")] | Annotated[Rates, Tag("rates")],
            Discriminator(lambda value: "name" if isinstance(value, str) else "rates"),
        ]
        | None
    ) = None
    gpu_hour: Amount | None = None
    prefill_tokens_per_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    discount: Annotated[Amount, Field(le=1)] | None = None
    region_factor: Amount | None = None
    batch_factor: Amount | None = None
    currency: Annotated[str, Field(min_length=1)] | None = None
    exchange_rate: Annotated[Amount, Field(gt=0)] | None = None
    shared_writes: SharedWrites | None = None

    @model_validator(mode="after")
    def _one_currency(self) -> Pricing:
        if (self.currency is None) != (self.exchange_rate is None):
            raise refusal(
                "currency and exchange_rate go together", 'currency = "EUR" with exchange_rate = 0.92'
            )
        return self

    def over(self, general: Pricing) -> Pricing:
        """Return these prices, taking from ``general`` what is not given here."""
        own = {name: value for name, value in self if value is not None}
        return general.model_copy(update=own)
