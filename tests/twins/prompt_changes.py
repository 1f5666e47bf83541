"""References and changes of prompts given as lists of pieces, told without a forest."""

from __future__ import annotations

LEAST = 48
LEAST_OWN = 32
EDIT = 64
THREADS = 4


def reference(
    prompts: list[list[tuple[int, int]]], new_from: list[int], streams: list[tuple[int, int, int]]
) -> tuple[list[int], list[int]]:
    """Return the earlier prompt that each is told against, -1 for none, and the token at which it goes on from one.

    Args:
        prompts: Pieces of each prompt: content and length.
        new_from: First token whose key is new.
        streams: Session, tenant and namespace of each.
    """
    last_of: dict[int, int] = {}
    found, continued = [], []
    for row, prompt in enumerate(prompts):
        behind, end, token = [], 0, 0
        for piece in prompt:
            end += piece[1]
            if end > new_from[row]:
                behind.append(piece)
        seen = [last_of[content] for content, _ in behind if content in last_of]
        choice = -1
        session, tenant, namespace = streams[row]
        if sum(length for content, length in behind if content in last_of) >= (
            LEAST_OWN if session >= 0 else LEAST
        ):
            before = [old for old in range(row) if streams[old][0] == session >= 0 and prompts[old]][
                -THREADS:
            ]
            before = [old for old in before if streams[old][2] == namespace]
            if before:
                common = [shared(prompt, prompts[old]) for old in before]
                last = max(range(len(before)), key=lambda at: (common[at], at))
                if common[last] >= len(prompts[before[last]]) - 1:
                    token = sum(length for _, length in prompt[: common[last]])
            asked = [
                max(
                    (old for old in range(row) if streams[old][0] == session >= 0 and prompts[old]),
                    default=-1,
                ),
                max(
                    (old for old in range(row) if streams[old][1] == tenant >= 0 and prompts[old]), default=-1
                ),
                seen[0],
                seen[-1],
            ]

            def score(old: int, behind: list = behind) -> int:
                return sum(length for content, length in behind if content in {c for c, _ in prompts[old]})

            asked = [old for old in asked if old >= 0]
            choice = max(asked, key=score)  # of equals the first
            near = [old for old in asked if streams[old][2] == namespace]
            if near and score(best := max(near, key=score)) * 10 >= 9 * score(choice) and score(best):
                choice = best
            own = streams[choice][0] == session >= 0 and streams[choice][2] == namespace
            if score(max(asked, key=score)) < (LEAST_OWN if own else LEAST):
                choice = -1
        found.append(choice)
        continued.append(token)
        last_of.update(dict.fromkeys((content for content, _ in behind), row))
    return found, continued


def shared(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> int:
    """Return how many pieces two prompts begin with in common."""
    return next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def changes(
    new: list[tuple[int, int]],
    old: list[tuple[int, int]],
    kinds: tuple[list[int], list[int]],
    least: int,
    *,
    by_ids: bool,
) -> list[tuple[int, int, int, int, int]]:
    """Return token, new tokens, old tokens, tokens known again and new tokens before those of each change.

    The common beginning is the first.

    Args:
        new: Pieces of a prompt: content and length.
        old: The same of the one before.
        kinds: Part of the prompt that each piece is in, of both.
        least: Tokens that must be known again.
        by_ids: Whether pieces are blocks known by their ids.
    """
    layers, after, at, gap = [[0, 0, 0, 0, 0, False, None]], 0, 0, 0
    contents = [content for content, _ in old]
    held = {content for content, _ in new}
    gap_from = 0
    left = set(range(len(old)))
    for number, (content, length) in enumerate(new):
        kind = kinds[0][number]
        places = [place for place in sorted(left) if contents[place] == content]
        ahead = [place for place in places if place >= after]
        if after in places:
            where = after
        elif places:
            where = (ahead or places)[0]
        else:
            if gap and layers[-1][5] and kind != kinds[0][number - 1]:
                layers[-1][1] += gap
                gap_from, gap = at, 0
            at += length
            gap += length
            continue
        at += length
        if gap or where != after:
            crossed = layers[-1][5] and kind != layers[-1][6]
            skipped = [
                (c, n)
                for (c, n), k in zip(old[after:where], kinds[1][after:where], strict=True)
                if not crossed or (c not in held and k == kind)
            ]
            total, gone = sum(n for _, n in skipped), sum(n for c, n in skipped if c not in held)
            moved = where < after or (total > 0 and 2 * gone <= total)
            goes_on = crossed and not moved and not gap and not total
            if goes_on or (moved and layers[-1][5] and not crossed and gap <= (0 if by_ids else EDIT)):
                layers[-1][1] += gap
                layers[-1][2] += total
            else:
                layers.append([gap_from, gap, total, 0, gap, moved, kind])
        layers[-1][3] += length
        left.remove(where)
        gap_from, gap, after = at, 0, where + 1
    while len(layers) > 1:
        for last in range(len(layers) - 1, 0, -1):
            behind = sum(layer[3] for layer in layers[last:])
            if behind < least or (behind < layers[last][1] and not layers[last][5]):
                layers = layers[:last]
                break
        else:
            break
    return [tuple(layer[:5]) for layer in layers]
