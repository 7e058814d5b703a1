"""One target under libFuzzer, in a process of its own: `python -m tests.fuzz.child TARGET FOLDER [OPTION...]`."""

from __future__ import annotations

import hashlib
import random
import sys
from pathlib import Path

import atheris

from tests.fuzz.target import findings, target


def main() -> None:
    name, folder, *options = sys.argv[1:]
    with atheris.instrument_imports(include=["nri", "v010_adapter"]):
        fuzzed = target(name)

    def mutate(data: bytes, limit: int, seed: int) -> bytes:
        dice = random.Random(seed)  # noqa: S311 - no secret
        changed = fuzzed.mutate(data, dice)[:limit] if dice.random() < 0.5 else data
        return changed if changed != data else atheris.Mutate(data, limit)

    corpus = Path(folder) / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for data in (*fuzzed.seeds(), *(path.read_bytes() for path in findings(name))):
        (corpus / hashlib.sha256(data).hexdigest()).write_bytes(data)
    words = Path(folder) / "words"
    words.write_text("".join(f'"{word}"\n' for word in fuzzed.words or ("-",)))
    atheris.Setup([sys.argv[0], *options, f"-dict={words}", str(corpus)], fuzzed.check, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
