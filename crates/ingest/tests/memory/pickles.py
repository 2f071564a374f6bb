"""Random plain data, pickled by Python itself with protocols 2 to 5: for the reader to read the same.

Prints one case per line: the pickle in hexadecimal, a space, and its content. There, containers are numbered in the order
in which they are met, and one that was met before is `@number`: sharing and recursion must be the same, too.
"""

import pickle
import random
import struct
import sys


def data(rng, pool, protocol, depth=0):
    choice = rng.randrange(13 if depth < 4 else 8)
    if choice == 7 and protocol == 2:
        choice = 0  # Protocol 2 knows no bytes: Python writes a call, which is refused.
    if choice < 8:
        return [None, True, False, rng.randrange(-(1 << rng.randrange(1, 100)), 1 << rng.randrange(1, 100)), rng.random(),
                rng.choice(["", "a", "ü€😀", "forward", "x" * 300]), rng.randrange(-300, 70000),
                bytes(rng.randrange(32, 127) for _ in range(rng.randrange(3)))][choice]
    if choice == 8 and pool:
        return rng.choice(pool)
    items = [data(rng, pool, protocol, depth + 1) for _ in range(rng.choice([0, 1, 2, 3, 5]))]
    if choice == 9:
        return tuple(items)
    made = list(items) if choice < 11 else {rng.choice(["action", "addr", "size", 7]): item for item in items}
    if isinstance(made, list) and rng.random() < 0.1:
        made.append(made)
    pool.append(made)
    return made


def canonical(value, seen):
    if value is None or value is True or value is False:
        return {None: "n", True: "t", False: "f"}[value]
    if isinstance(value, int):
        return f"i{value}"
    if isinstance(value, float):
        return "d" + struct.pack(">d", value).hex()
    if isinstance(value, (str, bytes)):
        return ("s" + value.encode().hex()) if isinstance(value, str) else "b" + value.hex()
    if isinstance(value, tuple) and not value:
        return "()"  # Python has only one, a file may have several.
    if id(value) in seen:
        return f"@{seen[id(value)]}"
    seen[id(value)] = len(seen)
    if isinstance(value, dict):
        return "{" + ",".join(canonical(k, seen) + ":" + canonical(v, seen) for k, v in value.items()) + "}"
    text = ",".join(canonical(item, seen) for item in value)
    return f"[{text}]" if isinstance(value, list) else f"({text})"


def main():
    rng = random.Random(int(sys.argv[2]))
    for _ in range(int(sys.argv[1])):
        protocol = rng.randrange(2, 6)
        value = data(rng, [], protocol)
        # Loaded once more: constants and empty tuples that Python happens to share are then as the file says.
        pickled = pickle.dumps(value, protocol=protocol)
        print(pickled.hex(), canonical(pickle.loads(pickled), {}))


if __name__ == "__main__":
    main()
