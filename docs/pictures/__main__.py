"""Writes the pictures of the documentation: `python -m docs.pictures`; with `record`, of a new run of the demo."""

import sys

from docs.pictures import PICTURES, demo

if sys.argv[1:] == ["record"]:
    demo.RECORDING.write_text(demo.record())
for file, picture in PICTURES.items():
    file.write_text(picture())
