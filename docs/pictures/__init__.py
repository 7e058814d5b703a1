"""The pictures of the documentation. `python -m docs.pictures` writes them, a test compares each with its script."""

from pathlib import Path

from docs import life
from docs.pictures import deadline, demo, latency, pod, whole

HERE = Path(__file__).parent
PICTURES = {
    life.FILE: life.picture,
    HERE / "whole.svg": whole.picture,
    HERE / "pod.svg": pod.picture,
    HERE / "demo.svg": demo.picture,
    HERE / "deadline.svg": deadline.picture,
    HERE / "latency.svg": latency.picture,
}
"""Each file, and what draws it."""
