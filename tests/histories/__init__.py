"""Random histories of a node, and one judge of them.

The way of a history, and the order to read it in: `world` has the dice and the faults; `story` says what happens to
the pods and containers; `runtime` asks one adapter after the other; `peer` is an adapter, whole and real, on the loop
of `clock`; `run` is in place of the processes of plugins; `event` has what was seen; `judge` has the promises.
`playing` puts all this in the places of the real things.
"""
