"""What every figure of the report is said to mean."""

from __future__ import annotations

import report_data
from prefixledger.report.definitions import definitions


def test_every_figure_says_its_weight_its_window_and_its_blocks() -> None:
    """A rate without them is misread: "only 21 %" was token-weighted, whole blocks, and of the last requests."""
    found = {one.anchor: one for one in definitions(report_data.week())}
    assert {"token-hit-rate", "request-hit-rate", "ideal-hit-rate"} <= set(found)
    for one in found.values():
        assert all((one.term, one.formula, one.weight, one.window, one.blocks)), one.anchor
    by_token, by_request = found["token-hit-rate"], found["request-hit-rate"]
    assert ("token" in by_token.weight, "lookup" in by_request.weight) == (True, True)
    assert "partial last block" in by_token.blocks
