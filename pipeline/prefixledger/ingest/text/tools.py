"""The tokenizer and the template of a call, loaded once and before any log is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prefixledger.ingest.text.batch import digest
from prefixledger.ingest.text.plan import TextPlan

if TYPE_CHECKING:
    from prefixledger.ingest.options import IngestOptions
    from prefixledger.ingest.text.tokenizers import Tokenizer


@dataclass(frozen=True, slots=True)
class TextTools:
    """How text becomes keys.

    Attributes:
        plan: What workers need to know.
        tokenizer: Makes token ids; None cuts by bytes.
    """

    plan: TextPlan
    tokenizer: Tokenizer | None = None

    def scope(self, bytes_per_block: int) -> str:
        """Return the scope of the namespaces: everything about the cutting that must be equal before keys are compared.

        Args:
            bytes_per_block: Size of a block where there is no tokenizer.
        """
        how = f"bytes:{bytes_per_block}" if self.tokenizer is None else f"tokens:{self.tokenizer.digest}"
        template = "" if self.plan.template is None else f":{digest(self.plan.template.encode())[:8].hex()}"
        return f"text:{how}{template}"


def load_tools(options: IngestOptions) -> TextTools:
    """Load what the options name.

    Raises:
        UsageError: A tokenizer or a template cannot be used.
    """
    tokenizer = template = None
    if options.tokenizer is not None:
        from prefixledger.ingest.text.tokenizers import load_tokenizer  # noqa: PLC0415  # most logs need none

        tokenizer = load_tokenizer(options.tokenizer)
    if options.template is not None:
        from prefixledger.ingest.text.template import load_template  # noqa: PLC0415  # most logs need none

        template = load_template(options.template)
    specials = () if tokenizer is None else tokenizer.specials
    return TextTools(TextPlan(template, specials, options.keep_text), tokenizer)
