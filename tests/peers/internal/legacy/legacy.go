// Package legacy runs NRI v0.1.0 plugins through upstream's original client (package nri of containerd/nri, client.go):
// what it sends them is the truth that our own requests are compared with.
package legacy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"unsafe"

	"github.com/containerd/nri"
	"github.com/containerd/nri/pkg/api"
	v1 "github.com/containerd/nri/types/v1"
	oci "github.com/opencontainers/runtime-spec/specs-go"
)

// Load reads a conf.json as nri.loadConfig (client.go) does: an absent file is an empty list of version 0.1, the first
// JSON value counts. nri.New cannot be used, its path is a constant.
func Load(path string) (*v1.ConfigList, error) {
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return &v1.ConfigList{Version: nri.Version}, nil
	}
	if err != nil {
		return nil, err
	}
	return Parse(text)
}

// Parse decodes the text of a conf.json.
func Parse(text []byte) (*v1.ConfigList, error) {
	list := &v1.ConfigList{}
	return list, json.NewDecoder(bytes.NewReader(text)).Decode(list)
}

// client sets the one field of nri.Client, which is not exported.
func client(list *v1.ConfigList) (*nri.Client, error) {
	field := reflect.TypeFor[nri.Client]().Field(0)
	if field.Name != "conf" || field.Type != reflect.TypeOf(list) {
		return nil, fmt.Errorf("nri.Client is not what it was: %s %s", field.Name, field.Type)
	}
	c := &nri.Client{}
	*(**v1.ConfigList)(unsafe.Pointer(c)) = list
	return c, nil
}

// part is what a pod and a container have in common, as far as legacy plugins are concerned.
type part struct {
	id          string
	pid         uint32
	annotations map[string]string
	namespaces  []*api.LinuxNamespace
	resources   *api.LinuxResources
	cgroups     string
}

func (p *part) ID() string  { return p.id }
func (p *part) Pid() uint32 { return p.pid }

// Spec has the effect of ociSpecFromPod and ociSpecFromContainer (upstream's plugins/v010-adapter/v010-adapter.go).
func (p *part) Spec(context.Context) (*oci.Spec, error) {
	linux := &oci.Linux{Resources: p.resources.ToOCI(), CgroupsPath: p.cgroups}
	for _, ns := range p.namespaces {
		linux.Namespaces = append(linux.Namespaces, oci.LinuxNamespace{Type: oci.LinuxNamespaceType(ns.Type), Path: ns.Path})
	}
	return &oci.Spec{Annotations: p.annotations, Linux: linux}, nil
}

// Task is what the original client asks for its request: the container, or the pod where there is none.
func Task(pod *api.PodSandbox, container *api.Container) nri.Task {
	if container == nil {
		l := pod.GetLinux()
		return &part{pod.GetId(), pod.GetPid(), pod.GetAnnotations(), l.GetNamespaces(), l.GetResources(), l.GetCgroupsPath()}
	}
	l := container.GetLinux()
	return &part{
		container.GetId(), container.GetPid(), container.GetAnnotations(), l.GetNamespaces(), l.GetResources(), l.GetCgroupsPath(),
	}
}

// Invoke runs the chain once, as upstream's adapter does for one event.
func Invoke(list *v1.ConfigList, state v1.State, pod *api.PodSandbox, container *api.Container) error {
	c, err := client(list)
	if err != nil {
		return err
	}
	sandbox := &nri.Sandbox{ID: pod.GetId(), Labels: pod.GetLabels()}
	_, err = c.InvokeWithSandbox(context.Background(), Task(pod, container), state, sandbox)
	return err
}
