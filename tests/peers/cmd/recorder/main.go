// Command recorder is an NRI plugin that appends every event it gets to a file, one JSON object per line:
// {"n", "event", "pod", "container", "extra"}, pod and container as protojson with the proto's field names.
//
// It subscribes to what all runtimes know (bits 1 to 11). External: -idx NN -name NAME -socket PATH -out FILE. Launched by
// a runtime: the configuration text that comes with Configure is the path of the file.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"log"
	"os"
	"strings"
	"sync"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	"google.golang.org/protobuf/proto"

	"peers/internal/pb"
)

const known = api.EventMask(1<<11 - 1)

type recorder struct {
	lock sync.Mutex
	path string
	n    int
}

type record struct {
	N         int             `json:"n"`
	Event     string          `json:"event"`
	Pod       json.RawMessage `json:"pod"`
	Container json.RawMessage `json:"container"`
	Extra     any             `json:"extra,omitempty"`
}

func main() {
	r := &recorder{}
	idx := flag.String("idx", "", "index to register with")
	name := flag.String("name", "", "name to register with")
	socket := flag.String("socket", "", "socket of the runtime")
	flag.StringVar(&r.path, "out", "", "file to append to")
	flag.Parse()
	if err := run(r, *idx, *name, *socket); err != nil {
		log.Fatal(err)
	}
}

func run(r *recorder, idx, name, socket string) error {
	opts := []stub.Option{stub.WithOnClose(func() { os.Exit(0) })}
	if idx != "" {
		opts = append(opts, stub.WithPluginIdx(idx))
	}
	if name != "" {
		opts = append(opts, stub.WithPluginName(name))
	}
	if socket != "" {
		opts = append(opts, stub.WithSocketPath(socket))
	}
	s, err := stub.New(r, opts...)
	if err != nil {
		return err
	}
	return s.Run(context.Background())
}

func (r *recorder) write(event string, pod *api.PodSandbox, container *api.Container, extra any) error {
	r.lock.Lock()
	defer r.lock.Unlock()
	podText, podErr := pb.Encode(pod)
	containerText, containerErr := pb.Encode(container)
	f, openErr := os.OpenFile(r.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err := errors.Join(podErr, containerErr, openErr); err != nil {
		log.Print(err)
		return err
	}
	defer f.Close()
	r.n++
	out := json.NewEncoder(f)
	out.SetEscapeHTML(false)
	return out.Encode(record{r.n, event, podText, containerText, extra})
}

func (r *recorder) Configure(_ context.Context, config, runtime, version string) (api.EventMask, error) {
	if r.path == "" {
		r.path = strings.TrimSpace(config)
	}
	extra := map[string]string{"config": config, "runtime": runtime, "version": version}
	return known, r.write("Configure", nil, nil, extra)
}

func (r *recorder) Synchronize(_ context.Context, pods []*api.PodSandbox, containers []*api.Container) ([]*api.ContainerUpdate, error) {
	podTexts, podErr := encodeAll(pods)
	containerTexts, containerErr := encodeAll(containers)
	extra := map[string]any{"pods": podTexts, "containers": containerTexts}
	return nil, errors.Join(podErr, containerErr, r.write("Synchronize", nil, nil, extra))
}

func encodeAll[M proto.Message](messages []M) ([]json.RawMessage, error) {
	texts := []json.RawMessage{}
	for _, m := range messages {
		text, err := pb.Encode(m)
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return texts, nil
}

func (r *recorder) RunPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	return r.write("RunPodSandbox", pod, nil, nil)
}

func (r *recorder) StopPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	return r.write("StopPodSandbox", pod, nil, nil)
}

func (r *recorder) RemovePodSandbox(_ context.Context, pod *api.PodSandbox) error {
	return r.write("RemovePodSandbox", pod, nil, nil)
}

func (r *recorder) CreateContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	return nil, nil, r.write("CreateContainer", pod, c, nil)
}

func (r *recorder) PostCreateContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) error {
	return r.write("PostCreateContainer", pod, c, nil)
}

func (r *recorder) StartContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) error {
	return r.write("StartContainer", pod, c, nil)
}

func (r *recorder) PostStartContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) error {
	return r.write("PostStartContainer", pod, c, nil)
}

func (r *recorder) UpdateContainer(_ context.Context, pod *api.PodSandbox, c *api.Container, wanted *api.LinuxResources) ([]*api.ContainerUpdate, error) {
	text, err := pb.Encode(wanted)
	return nil, errors.Join(err, r.write("UpdateContainer", pod, c, map[string]any{"linux_resources": text}))
}

func (r *recorder) PostUpdateContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) error {
	return r.write("PostUpdateContainer", pod, c, nil)
}

func (r *recorder) StopContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) ([]*api.ContainerUpdate, error) {
	return nil, r.write("StopContainer", pod, c, nil)
}

func (r *recorder) RemoveContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) error {
	return r.write("RemoveContainer", pod, c, nil)
}
