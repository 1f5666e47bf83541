"""The memory of a router, block by block and as slowly as it can be said."""

from __future__ import annotations


class SlowMemory:
    """Blocks are named by all ids up to them; each list keeps (owner, block) or blocks, oldest first."""

    def __init__(self, prompts, owners, *, ageing="each", head_first=False):
        self.prompts, self.owners, self.ageing, self.head_first = prompts, owners, ageing, head_first
        self.has = [{} for _ in range(owners)]  # block -> row of the latest request that sent it
        self.lists = {}

    def _key(self, owner):
        return owner if self.ageing == "each" else "all"

    def _blocks(self, row):
        return [tuple(self.prompts[row][: n + 1]) for n in range(len(self.prompts[row]))]

    def match(self, row, *, holes=False):
        """Return the blocks and the latest sender of each owner."""
        blocks = self._blocks(row)
        if not holes:
            found = []
            for has in self.has:
                count = 0
                while count < len(blocks) and blocks[count] in has:
                    count += 1
                found.append((count, has[blocks[count - 1]] if count else -1))
            return [count for count, _ in found], [sender for _, sender in found]
        known = 0
        while known < len(blocks) and any(blocks[known] in has for has in self.has):
            known += 1
        return [sum(block in has for block in blocks[:known]) for has in self.has], None

    def remember(self, row, owner):
        """Note that a request went to an owner."""
        blocks = self._blocks(row)
        aged = self.lists.setdefault(self._key(owner), [])
        for block in blocks if self.head_first else blocks[::-1]:
            self.has[owner][block] = row
            entry = block if self.ageing == "blocks" else (owner, block)
            aged[:] = [(e, r) for e, r in aged if e != entry] + [(entry, row)]

    def held(self, owner):
        """Return the blocks, or (owner, block) pairs, in a list."""
        return len(self.lists.get(self._key(owner), []))

    def forget(self, *, owner=0, most_blocks=None, before_row=0):
        """Drop what is oldest, one by one."""
        aged = self.lists.setdefault(self._key(owner), [])
        while aged and (aged[0][1] < before_row or (most_blocks is not None and len(aged) > most_blocks)):
            entry, _ = aged.pop(0)
            if self.ageing == "blocks":
                for has in self.has:
                    has.pop(entry, None)
            else:
                self.has[entry[0]].pop(entry[1], None)
