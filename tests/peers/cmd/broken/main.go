// Command broken is a plugin made of upstream's stub that breaks one rule of the contract: the one that it is named by.
// With another name it keeps all rules.
package main

import (
	"context"
	"log"
	"os"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
)

type plugin struct {
	breaks string
	stub   stub.Stub
}

func main() {
	var err error
	p := &plugin{breaks: os.Getenv(api.PluginNameEnvVar)}
	if p.stub, err = stub.New(p, stub.WithOnClose(p.closed)); err == nil {
		err = p.stub.Run(context.Background())
	}
	if p.breaks == "ends-with-connection" {
		time.Sleep(time.Hour)
	}
	log.Fatal(err)
}

func (p *plugin) closed() {
	if p.breaks != "ends-with-connection" {
		os.Exit(0)
	}
}

func (p *plugin) CreateContainer(_ context.Context, _ *api.PodSandbox, c *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	if p.breaks == "sparse-messages" {
		log.Print(c.Linux.Resources.Memory.Limit.Value)
	}
	if p.breaks == "merges" {
		return nil, []*api.ContainerUpdate{{ContainerId: c.Id}}, nil
	}
	return nil, nil, nil
}

func (p *plugin) StartContainer(_ context.Context, _ *api.PodSandbox, c *api.Container) error {
	if p.breaks == "updates-do-not-block" {
		_, err := p.stub.UpdateContainers([]*api.ContainerUpdate{{ContainerId: c.Id}})
		return err
	}
	return nil
}
