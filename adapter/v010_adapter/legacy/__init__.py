"""The bridge to NRI v0.1.0 plugins: one-shot programs that get a request as JSON and print a result.

An event goes config -> plan -> job -> queue -> request -> result -> answer: `daemon.bridge` and `job` connect these.
"""
