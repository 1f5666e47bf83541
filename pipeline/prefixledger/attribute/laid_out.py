"""A log with its prompts laid out anew, and the same laid out as it is, by which the first is judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.errors import UsageError
from prefixledger.replay.layout import laid_out, lay_out

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.attribute.trial import Trials

MOST_ERROR = 0.005
"""Of the prompt tokens may a replay of prompts that are laid out as they are differ from that of their keys."""
LATE = "what varies at their end"
LEAST_KNOWN = 0.95
"""Of the lookups must have contents that are known."""


@dataclass(frozen=True, slots=True)
class Layouts:
    """One log laid out twice.

    Attributes:
        as_it_is: Keys made of contents, nothing moved.
        changed: The same with the late pieces at the end of their prompts.
        struck: bool[m], lookups in whose prompts something was moved.
        what: What was changed, in words.
    """

    as_it_is: Trials
    changed: Trials
    struck: NDArray[np.bool_]
    what: str

    def check(self, hit_tokens: NDArray[np.int64], control_tokens: NDArray[np.int64]) -> None:
        """Refuse a log whose contents do not give the hits that its keys give.

        Args:
            hit_tokens: int64[m], of each lookup, by its keys.
            control_tokens: int64[m], of each, laid out as it is.

        Raises:
            UsageError: They differ by more than ``MOST_ERROR`` of the prompt tokens.
        """
        error = np.abs(control_tokens - hit_tokens).sum()
        asked = self.as_it_is.prepared.log.lookups.prompt_tokens.sum()
        if error > MOST_ERROR * asked:
            raise UsageError(
                f"prompts with {self.what} could not be tried: laid out as they are, their hits differ from those of their keys "
                f"by {100 * error / asked:.1f} % of the tokens"
            )


def lay_out_trials(
    trials: Trials, late: NDArray[np.bool_], namespace: NDArray[np.int64], what: str
) -> Layouts:
    """Lay the prompts of a log out.

    Args:
        trials: A log that says what its prompts are made of.
        late: bool[pieces], those that are to stand at the end.
        namespace: int64[m], prompts share keys within one number of these alone.
        what: What is changed, in words.

    Raises:
        UsageError: Of too many prompts it is not known what they are made of, or in other tokens than they are counted in.
    """
    log = trials.prepared.log
    contents = log.contents
    assert contents is not None
    mine = contents.node >= 0
    if mine.mean() < LEAST_KNOWN:
        raise UsageError(
            f"prompts with {what} could not be tried: the log says of {100 * mine.mean():.0f} % what they are made of"
        )
    layout = lay_out(contents, late)
    nothing = lay_out(contents, np.zeros(contents.parent.size, np.bool_))
    as_it_is = laid_out(log, nothing, contents.namespace, mine)
    changed = laid_out(log, layout, namespace, mine)
    if as_it_is is None or changed is None:
        raise UsageError(
            f"prompts with {what} could not be tried: what they are made of is counted in other tokens than they are"
        )
    control, after = (trials.keyed_anew(log) for log in (as_it_is, changed))
    struck = mine & (layout.late_tokens[np.maximum(contents.node, 0)] > 0)
    return Layouts(control, after, struck, what)
