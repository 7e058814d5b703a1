// Command hookplugin is what the injection of hooks is measured against: a plugin that does for CreateContainer what upstream's
// plugins/hook-injector does, made of the same parts (pkg/stub and podman's hooks package, which watches the directories).
//
// The text that comes with Configure may be {"directories": […]}, for podman's own directories.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"maps"
	"os"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	rspec "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/sirupsen/logrus"
	"go.podman.io/common/pkg/hooks"
)

type plugin struct {
	Directories []string `json:"directories"`

	manager *hooks.Manager
}

var log = logrus.StandardLogger()

func main() {
	idx := flag.String("idx", "", "index to register with")
	flag.Parse()
	opts := []stub.Option{stub.WithOnClose(func() { os.Exit(1) })}
	if *idx != "" {
		opts = append(opts, stub.WithPluginIdx(*idx), stub.WithPluginName("hook-injector"))
	}
	s, err := stub.New(&plugin{Directories: []string{hooks.DefaultDir, hooks.OverrideDir}}, opts...)
	if err == nil {
		err = s.Run(context.Background())
	}
	log.Fatal(err)
}

func (p *plugin) Configure(_ context.Context, config, runtime, version string) (stub.EventMask, error) {
	log.Infof("Connected to %s/%s...", runtime, version)
	if config != "" {
		if err := json.Unmarshal([]byte(config), p); err != nil {
			return 0, err
		}
	}
	var err error
	if p.manager, err = hooks.New(context.Background(), p.Directories, nil); err != nil {
		return 0, err
	}
	watching := make(chan error, 2)
	go p.manager.Monitor(context.Background(), watching)
	return 0, <-watching
}

// CreateContainer injects; as upstream has it, whatever is mounted counts as a bind mount.
func (p *plugin) CreateContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	annotations := map[string]string{}
	maps.Copy(annotations, container.Annotations)
	maps.Copy(annotations, pod.Annotations)
	spec := &rspec.Spec{Process: &rspec.Process{Args: container.Args}}
	if _, err := p.manager.Hooks(spec, annotations, len(container.Mounts) > 0); err != nil {
		return nil, nil, err
	}
	if spec.Hooks == nil {
		log.Infof("%s/%s: no hooks to inject, ignoring", pod.Name, container.Name)
		return nil, nil, nil
	}
	adjust := &api.ContainerAdjustment{}
	adjust.AddHooks(api.FromOCIHooks(spec.Hooks))
	log.Infof("%s/%s: OCI hooks injected", pod.Name, container.Name)
	return adjust, nil, nil
}
