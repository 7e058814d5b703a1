"""The programs that run for one event, legacy plugins or precreate hooks.

`chain` is pure: data in, actions out. `driver` connects it to the loop and to processes.
"""
