"""A legacy plugin of the end-to-end run with Docker: one container gets what Docker takes, all others a device."""

import json
import sys

request = json.load(sys.stdin)
device = {"path": "/dev/e2e-null", "type": "c", "major": 1, "minor": 3}
mount = {"destination": "/e2e-mount", "type": "tmpfs", "source": "", "options": ["ro"]}
adjusted = {"process": {"env": ["LEGACY=plugin", "FOO=changed"]}, "mounts": [mount]}
is_adjusted = request["container"]["name"].endswith("adjusted")
print(json.dumps({"spec": adjusted if is_adjusted else {"linux": {"devices": [device]}}}))
