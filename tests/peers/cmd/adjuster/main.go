// Command adjuster is what our speed is measured against where containers are adjusted: a plugin that sets resource limits
// by an annotation as upstream's plugins/ulimit-adjuster does, made of upstream's stub. The annotation is JSON here.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
)

const annotation = "ulimits.noderesource.dev/container."

type plugin struct{}

type limit struct {
	Type string `json:"type"`
	Hard uint64 `json:"hard"`
	Soft uint64 `json:"soft"`
}

func main() {
	s, err := stub.New(&plugin{}, stub.WithOnClose(func() { os.Exit(1) }))
	if err == nil {
		err = s.Run(context.Background())
	}
	log.Fatal(err)
}

func (*plugin) CreateContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	text, ok := pod.Annotations[annotation+container.Name]
	if !ok {
		return nil, nil, nil
	}
	var limits []limit
	if err := json.Unmarshal([]byte(text), &limits); err != nil {
		return nil, nil, fmt.Errorf("failed to parse %s: %w", annotation, err)
	}
	adjust := &api.ContainerAdjustment{}
	for _, l := range limits {
		adjust.AddRlimit("RLIMIT_"+strings.ToUpper(l.Type), l.Hard, l.Soft)
	}
	return adjust, nil, nil
}
