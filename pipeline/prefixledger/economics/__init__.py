"""What tokens cost: formulas, rate cards and bills."""

from __future__ import annotations
