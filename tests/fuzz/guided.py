"""One target under atheris, in a process of its own: `python -m fuzz.guided <target> <seconds> <seed> <folder>`."""

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["vsphere_events", "vsphere_functions"]):
    from fuzz.seeds import PIECES, SEEDS
    from fuzz.targets import TARGETS


def main(name: str, seconds: str, seed: str, place: str) -> None:
    """Fuzz until the time is up or something is found; ends the process."""
    folder = Path(place)
    corpus, words = folder / "corpus", folder / "words"
    corpus.mkdir(parents=True, exist_ok=True)
    for at, data in enumerate(SEEDS[name]):
        (corpus / f"seed-{at}").write_bytes(data)
    words.write_text("".join('"' + "".join(f"\\x{byte:02x}" for byte in piece) + '"\n' for piece in PIECES))
    limits = [
        f"-max_total_time={seconds}",
        f"-seed={seed}",
        "-max_len=8192",
        "-timeout=60",
        "-rss_limit_mb=2048",
    ]
    more = ["-print_final_stats=1", f"-dict={words}", f"-artifact_prefix={folder}/"]
    atheris.Setup([sys.argv[0], *limits, *more, str(corpus)], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
