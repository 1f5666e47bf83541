"""SGLang's classic radix tree with node objects, in plain slow Python: the twin of the sglang kernel."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Prompt:
    """One lookup: keys of its full blocks as far as they are known; more full blocks have keys of their own."""

    arrival: int
    replica: int
    tokens: int
    keys: list[int]
    bypassed: bool = False


@dataclass(slots=True)
class Answer:
    """Hits by row; ``removed`` holds (cause, row or -1, at, replica, key) in order of time by replica."""

    hit: list[int]
    refused: list[bool]
    first_eviction: list[int]
    removed: list[tuple[str, int, int, int, int]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Node:
    """A segment of blocks. ``accessed`` orders eviction, ``used`` (at, row) is the last lookup whose path has it."""

    key: list[object]
    parent: Node | None
    accessed: int = 0
    used: tuple[int, int] = (0, -1)
    locked: bool = False
    children: dict[object, Node] = field(default_factory=dict)


class Tree:
    """The tree of one replica; every access has a number of its own, later is larger."""

    def __init__(self) -> None:
        self.root = Node([], None)
        self.clock = 0

    def nodes(self) -> list[Node]:
        """Return all nodes but the root, parents first."""
        found, stack = [], [self.root]
        while stack:
            node = stack.pop()
            found.append(node)
            stack.extend(node.children.values())
        return found[1:]

    def size(self) -> int:
        """Return the blocks of all nodes."""
        return sum(len(node.key) for node in self.nodes())

    def access(self, key: list[object]) -> tuple[list[Node], list[object]]:
        """Walk down as far as the key is there, splitting where it ends inside a node; return the path and the rest."""
        self.clock += 1
        path, node, rest = [], self.root, list(key)
        while rest and rest[0] in node.children:
            node = node.children[rest[0]]
            node.accessed = self.clock
            same = 0
            while same < len(node.key) and same < len(rest) and node.key[same] == rest[same]:
                same += 1
            rest = rest[same:]
            if same < len(node.key):
                node = self.split(node, same)
                path.append(node)
                break
            path.append(node)
        return path, rest

    def split(self, node: Node, at: int) -> Node:
        """Put the first blocks of a node into a new parent, which inherits its times."""
        upper = Node(node.key[:at], node.parent, node.accessed, node.used, node.locked)
        node.parent.children[upper.key[0]] = upper
        node.key, node.parent = node.key[at:], upper
        upper.children[node.key[0]] = node
        return upper

    def remove(self, leaf: Node) -> None:
        """Take a leaf out."""
        assert not leaf.children
        assert not leaf.locked
        del leaf.parent.children[leaf.key[0]]


def replay(
    rows: list[Prompt],
    block: int,
    capacity: int,
    replicas: int,
    ttl: int = -1,
    resets: list[tuple[int, int]] | None = None,
) -> Answer:
    """Replay; ``resets`` are (at, replica) in order of time."""
    answer = Answer([0] * len(rows), [False] * len(rows), [-1] * replicas)
    for replica in range(replicas):
        tree = Tree()
        events = [(at, 0, 0) for at, of in resets or [] if of == replica]
        events += [(row.arrival, 1, i) for i, row in enumerate(rows) if row.replica == replica]
        for at, is_lookup, i in sorted(events):
            _expire(tree, ttl, at, replica, answer)
            if is_lookup:
                _look_up(tree, rows[i], i, block, capacity, answer)
            else:
                tree = Tree()
        _expire(tree, ttl, 1 << 60, replica, answer)
    return answer


def _look_up(tree: Tree, row: Prompt, number: int, block: int, capacity: int, answer: Answer) -> None:
    slots = -(-row.tokens // block)
    if slots > capacity:
        answer.refused[number] = True
        return
    unknown = [(number, k) for k in range(row.tokens // block - len(row.keys))]
    keys = [*row.keys, *unknown]
    path, _ = tree.access(keys[: 0 if row.bypassed else (row.tokens - 1) // block])
    for node in path:
        node.locked = True
    hits = answer.hit[number] = sum(len(node.key) for node in path)
    short = slots - hits - (capacity - tree.size())
    if short > 0 and answer.first_eviction[row.replica] < 0:
        answer.first_eviction[row.replica] = row.arrival
    while short > 0:
        leaves = [node for node in tree.nodes() if not node.children and not node.locked]
        # Where the match is skipped, one access splits a node and adds a leaf: the half that no lookup used goes first.
        oldest = min(leaves, key=lambda node: (node.accessed, node.used))
        tied = [node.used for node in leaves if node.accessed == oldest.accessed]
        assert tied.count(oldest.used) == 1, "a tie is for nobody to break"
        tree.remove(oldest)
        short -= len(oldest.key)
        _note(answer, "evicted", number, row.arrival, row.replica, oldest)
    path, rest = tree.access(keys)
    if rest:
        above = path[-1] if path else tree.root
        leaf = Node(rest, above, tree.clock)
        above.children[rest[0]] = leaf
        path.append(leaf)
    for node in path:
        node.locked = False
        node.used = (row.arrival, number)


def _expire(tree: Tree, ttl: int, now: int, replica: int, answer: Answer) -> None:
    """Remove every node that no lookup used for more than the TTL."""
    if ttl < 0:
        return
    late = [node for node in tree.nodes() if node.used[0] + ttl < now]
    for node in reversed(late):  # children first
        tree.remove(node)
    for node in sorted(late, key=lambda node: node.used):
        _note(answer, "expired", -1, node.used[0] + ttl, replica, node)


def _note(answer: Answer, cause: str, row: int, at: int, replica: int, node: Node) -> None:
    answer.removed += [(cause, row, at, replica, key) for key in reversed(node.key) if isinstance(key, int)]
