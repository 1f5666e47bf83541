"""Writes what the prompts of an input are made of: the forest of pieces, and what is known of pieces of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from prefixledger.ingest.contents import KINDS
from prefixledger.ingest.forest_kernel import renumber, rows_below
from prefixledger.schema_contents import CONTENTS, PIECES
from prefixledger.workspace import write_table

if TYPE_CHECKING:
    from prefixledger.ingest.collect import Collected
    from prefixledger.ingest.finish import Naming
    from prefixledger.ingest.settle import Settled
    from prefixledger.workspace import Workspace


def write_contents(workspace: Workspace, naming: Naming, collected: Collected, settled: Settled) -> None:
    """Write the pieces of the rows that are kept, and set the last piece of each; nothing where no content is known.

    Args:
        workspace: Where to.
        naming: Names.
        collected: The input.
        settled: What of it is kept; its ``content_node`` is set.
    """
    store = collected.contents
    own = np.array(store.node, np.int64)
    if not (own >= 0).any():
        return
    rows = np.arange(own.size)
    partner = np.array(collected.rows.partner, np.int64)
    answer = np.where(partner >= 0, partner, rows)
    node = np.where(own[answer] >= 0, own[answer], own)
    known = np.flatnonzero(own >= 0)
    node[settled.leader[known]] = node[known]  # of several pieces of a request the last one is heard
    alive = np.flatnonzero(settled.alive)
    through, _ = rows_below(store.forest.parent, node[alive], alive)
    keep = through > 0
    number, parent = renumber(store.forest.parent, keep)
    high, low = store.forest.label_hi[keep], store.forest.label_lo[keep]
    kinds = store.kinds()[keep]
    named = pa.array(KINDS).take(pa.array(kinds, mask=kinds < 0))
    columns = [parent, high, low, store.end_tokens()[keep], named]
    write_table(workspace.contents / f"{naming.source}.parquet", pa.table(columns, schema=CONTENTS.arrow()))
    settled.content_node = np.where(settled.alive & (node >= 0), number[np.maximum(node, 0)], -1)
    if not store.pieces:
        return
    held = list(store.pieces.items())  # in order of appearance; 64 bits of a name tell it from all others
    used = np.isin(np.array([name[0] for name, _ in held], np.uint64), high)
    found = [held[at] for at in np.flatnonzero(used).tolist()]
    table = pa.table(
        [
            [high for (high, _), _ in found],
            [low for (_, low), _ in found],
            [piece.mask_hi for _, piece in found],
            [piece.mask_lo for _, piece in found],
            [piece.marks for _, piece in found],
        ],
        schema=PIECES.arrow(),
    )
    write_table(workspace.pieces / f"{naming.source}.parquet", table)
