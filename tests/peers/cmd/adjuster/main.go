// Command adjuster sets two variables and a limit in each container that is created: as an NRI plugin what adjusting.c is
// as a legacy plugin.
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

func (*plugin) CreateContainer(context.Context, *api.PodSandbox, *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	adjust := &api.ContainerAdjustment{}
	adjust.AddEnv("A", "1")
	adjust.AddEnv("B", "2")
	adjust.AddRlimit("RLIMIT_NOFILE", 4096, 1024)
	return adjust, nil, nil
}
