// Command reference is what our speed is measured against: a plugin that does for the four legacy events what upstream's
// plugins/v010-adapter does, made of the same parts (pkg/stub and the original client, which reads its configuration anew
// for every event).
//
// The text that comes with Configure may be {"config": PATH of a conf.json, "path": DIRECTORY of the plugins}, for
// upstream's own /etc/nri/conf.json and PATH.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"os"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	v1 "github.com/containerd/nri/types/v1"
	"github.com/sirupsen/logrus"

	"peers/internal/legacy"
)

type plugin struct {
	Config string `json:"config"`
	Path   string `json:"path"`
}

var log = logrus.StandardLogger()

func main() {
	idx := flag.String("idx", "", "index to register with")
	name := flag.String("name", "v010-adapter", "name to register with")
	socket := flag.String("socket", api.DefaultSocketPath, "socket of the runtime")
	flag.Parse()
	opts := []stub.Option{stub.WithOnClose(func() { os.Exit(1) })}
	if *idx != "" {
		opts = append(opts, stub.WithPluginIdx(*idx), stub.WithPluginName(*name), stub.WithSocketPath(*socket))
	}
	s, err := stub.New(&plugin{"/etc/nri/conf.json", os.Getenv("PATH") + ":/opt/nri/bin"}, opts...)
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
	return 0, os.Setenv("PATH", p.Path)
}

func (p *plugin) invoke(state v1.State, pod *api.PodSandbox, container *api.Container) error {
	list, err := legacy.Load(p.Config)
	if err != nil {
		return err
	}
	return legacy.Invoke(list, state, pod, container)
}

func (p *plugin) RunPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	log.Infof("Started pod %s/%s...", pod.GetNamespace(), pod.GetName())
	return p.invoke(v1.Create, pod, nil)
}

func (p *plugin) StopPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	log.Infof("Stopped pod %s/%s...", pod.GetNamespace(), pod.GetName())
	return p.invoke(v1.Delete, pod, nil)
}

func (p *plugin) StartContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) error {
	log.Infof("Starting container %s/%s/%s...", pod.GetNamespace(), pod.GetName(), container.GetName())
	return p.invoke(v1.Create, pod, container)
}

// StopContainer tolerates what goes wrong, as upstream does.
func (p *plugin) StopContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) ([]*api.ContainerUpdate, error) {
	log.Infof("Stopped container %s/%s/%s...", pod.GetNamespace(), pod.GetName(), container.GetName())
	if err := p.invoke(v1.Delete, pod, container); err != nil {
		log.WithError(err).Errorf("failed to delete %q", container.GetId())
	}
	return nil, nil
}
