// Command idle is the least that a plugin made of upstream's stub takes: it is told of the events that our speed is
// measured at, and does nothing.
package main

import (
	"context"
	"log"
	"os"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
)

type plugin struct{}

func main() {
	s, err := stub.New(&plugin{}, stub.WithOnClose(func() { os.Exit(1) }))
	if err == nil {
		err = s.Run(context.Background())
	}
	log.Fatal(err)
}

func (*plugin) RunPodSandbox(context.Context, *api.PodSandbox) error { return nil }

func (*plugin) StopPodSandbox(context.Context, *api.PodSandbox) error { return nil }

func (*plugin) CreateContainer(context.Context, *api.PodSandbox, *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	return nil, nil, nil
}

func (*plugin) StartContainer(context.Context, *api.PodSandbox, *api.Container) error { return nil }

func (*plugin) StopContainer(context.Context, *api.PodSandbox, *api.Container) ([]*api.ContainerUpdate, error) {
	return nil, nil
}
