"""How fast and how large the adapter is, against Go plugins made of upstream's libraries: `python -m tests.bench`.

Every case is a module with a function `run` that yields rows; `arena` plays the same events to both sides in turn, so
that what else the machine does hits both alike. What counts are ratios.
"""
