module peers

go 1.25.7

require (
	github.com/opencontainers/runtime-spec v1.3.0
	github.com/sirupsen/logrus v1.9.4
	go.podman.io/common v0.69.0
)

require (
	github.com/fsnotify/fsnotify v1.10.1 // indirect
	go.podman.io/storage v1.64.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
)
