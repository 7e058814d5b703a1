package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/adaptation/builtin"
	"github.com/containerd/nri/pkg/api"
	nri "github.com/containerd/nri/pkg/runtime-tools/generate"
	"github.com/opencontainers/runtime-tools/generate"
	"google.golang.org/protobuf/encoding/protojson"
)

const plugins = 3

// collector has plugins that answer with what the case gives them.
type collector struct {
	adaptation *adaptation.Adaptation
	directory  string
	answers    [plugins]*api.ContainerAdjustment
}

func newCollector() (*collector, error) {
	directory, err := os.MkdirTemp("", "generate")
	if err != nil {
		return nil, err
	}
	c := &collector{directory: directory}
	synchronize := func(ctx context.Context, f adaptation.SyncCB) error {
		_, err := f(ctx, nil, nil)
		return err
	}
	update := func(context.Context, []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) { return nil, nil }
	c.adaptation, err = adaptation.New("generate", "v0", synchronize, update,
		adaptation.WithDisabledExternalConnections(),
		adaptation.WithPluginPath(directory),
		adaptation.WithPluginConfigPath(directory),
		adaptation.WithBuiltinPlugins(c.plugins()...))
	if err != nil {
		return nil, err
	}
	return c, c.adaptation.Start()
}

func (c *collector) plugins() []*builtin.BuiltinPlugin {
	var all []*builtin.BuiltinPlugin
	for i := range plugins {
		create := func(context.Context, *api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
			return &api.CreateContainerResponse{Adjust: c.answers[i]}, nil
		}
		all = append(all, &builtin.BuiltinPlugin{
			Base:     fmt.Sprintf("plugin%d", i),
			Index:    fmt.Sprintf("%02d", i),
			Handlers: builtin.BuiltinHandlers{CreateContainer: create},
		})
	}
	return all
}

func (c *collector) close() {
	c.adaptation.Stop()
	os.RemoveAll(c.directory)
}

func (c *collector) play(t *testCase) *outcome {
	o := &outcome{Spec: t.Spec}
	if t.Adjustments != nil {
		if err := c.adjust(t, o); err != nil {
			o.Error = err.Error()
		}
	}
	return o
}

func (c *collector) adjust(t *testCase, o *outcome) error {
	adjustment, err := c.collect(t.Adjustments)
	if err != nil {
		return err
	}
	if o.Adjustment, err = protojson.Marshal(adjustment); err != nil {
		return err
	}
	generator := generate.NewFromSpec(t.Spec)
	return nri.SpecGenerator(&generator).Adjust(adjustment)
}

func (c *collector) collect(adjustments []json.RawMessage) (*api.ContainerAdjustment, error) {
	c.answers = [plugins]*api.ContainerAdjustment{}
	for i, text := range adjustments {
		c.answers[i] = &api.ContainerAdjustment{}
		if err := protojson.Unmarshal(text, c.answers[i]); err != nil {
			return nil, err
		}
	}
	pod := &api.PodSandbox{Id: "pod"}
	request := &api.CreateContainerRequest{Pod: pod, Container: &api.Container{Id: "container", PodSandboxId: "pod"}}
	response, err := c.adaptation.CreateContainer(context.Background(), request)
	if err != nil {
		return nil, err
	}
	return response.GetAdjust(), nil
}
