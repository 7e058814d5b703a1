"""Programs, of legacy plugins and of precreate hooks: their processes, what these inherit, and those that stand by."""
