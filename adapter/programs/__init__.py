"""The programs that run for one event, legacy plugins or precreate hooks.

`chain`, `states` and `machine` are pure: data in, actions out. `driver` connects them to the loop and to processes.
"""
