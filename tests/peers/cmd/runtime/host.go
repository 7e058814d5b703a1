package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/ttrpc"
	"google.golang.org/protobuf/proto"

	"peers/internal/pb"
)

// host is one runtime: an adaptation, the state it tells plugins when they synchronize, and what was seen of them.
type host struct {
	adaptation *adaptation.Adaptation
	pods       []*api.PodSandbox
	containers []*api.Container

	lock    sync.Mutex
	calls   []call
	updates []json.RawMessage
}

// call is one ttRPC request to a plugin. Bytes is the message without its header.
type call struct {
	Method string  `json:"method"`
	Bytes  int     `json:"bytes"`
	Micros float64 `json:"us"`
	Error  string  `json:"error"`
}

func open(o *op) (*host, error) {
	h := &host{}
	// The adaptation keeps its timeouts in variables of the package: the last host opened sets them for all.
	adaptation.SetPluginRegistrationTimeout(timeout(o.RegistrationTimeout, adaptation.DefaultPluginRegistrationTimeout))
	adaptation.SetPluginRequestTimeout(timeout(o.RequestTimeout, adaptation.DefaultPluginRequestTimeout))
	listen := adaptation.WithSocketPath(o.Socket)
	if o.Socket == "" {
		listen = adaptation.WithDisabledExternalConnections()
	}
	var err error
	h.adaptation, err = adaptation.New(o.Name, o.Version, h.synchronize, h.update,
		adaptation.WithPluginPath(o.PluginDir), adaptation.WithPluginConfigPath(o.DropInDir), listen,
		adaptation.WithTTRPCOptions([]ttrpc.ClientOpts{ttrpc.WithUnaryClientInterceptor(h.watch)}, nil))
	return h, err
}

func timeout(ms int, otherwise time.Duration) time.Duration {
	if ms == 0 {
		return otherwise
	}
	return time.Duration(ms) * time.Millisecond
}

func (h *host) watch(ctx context.Context, request *ttrpc.Request, response *ttrpc.Response, _ *ttrpc.UnaryClientInfo, invoke ttrpc.Invoker) error {
	begin := time.Now()
	err := invoke(ctx, request, response)
	c := call{Method: request.Method, Bytes: proto.Size(request), Micros: micros(begin)}
	if err != nil {
		c.Error = err.Error()
	}
	h.lock.Lock()
	defer h.lock.Unlock()
	h.calls = append(h.calls, c)
	return err
}

func (h *host) takeCalls(*op) (*reply, error) {
	h.lock.Lock()
	defer h.lock.Unlock()
	r := &reply{Calls: h.calls}
	h.calls = nil
	return r, nil
}

func (h *host) synchronize(ctx context.Context, tell adaptation.SyncCB) error {
	_, err := tell(ctx, h.pods, h.containers)
	return err
}

// update is what the runtime does about unsolicited updates: it notes them.
func (h *host) update(_ context.Context, updates []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
	text, err := encodeAll(updates)
	h.lock.Lock()
	defer h.lock.Unlock()
	h.updates = append(h.updates, text)
	return nil, err
}

func (h *host) takeUpdates(*op) (*reply, error) {
	h.lock.Lock()
	defer h.lock.Unlock()
	r := &reply{Updates: h.updates}
	h.updates = nil
	return r, nil
}

func encodeAll(updates []*api.ContainerUpdate) (json.RawMessage, error) {
	texts := []json.RawMessage{}
	for _, u := range updates {
		text, err := pb.Encode(u)
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return json.Marshal(texts)
}

func (h *host) setState(o *op) (*reply, error) {
	h.pods, h.containers = nil, nil
	for _, text := range o.Pods {
		h.pods = append(h.pods, &api.PodSandbox{})
		if err := pb.Decode(text, h.pods[len(h.pods)-1]); err != nil {
			return nil, err
		}
	}
	for _, text := range o.Containers {
		h.containers = append(h.containers, &api.Container{})
		if err := pb.Decode(text, h.containers[len(h.containers)-1]); err != nil {
			return nil, err
		}
	}
	for n := range o.MakePods {
		h.pods = append(h.pods, &api.PodSandbox{Id: fmt.Sprintf("pod%d", n), Name: fmt.Sprintf("p%d", n)})
	}
	for n := range o.MakeContainers {
		h.containers = append(h.containers, &api.Container{
			Id: fmt.Sprintf("container%d", n), PodSandboxId: fmt.Sprintf("pod%d", n%max(o.MakePods, 1)),
			State: api.ContainerState_CONTAINER_RUNNING, Args: []string{"sleep", "inf"},
		})
	}
	return nil, h.fill(o.Bytes)
}

// fill spreads padding over the containers until all of the state is about that many bytes, which it never exceeds.
func (h *host) fill(bytes int) error {
	missing := bytes - proto.Size(&api.SynchronizeRequest{Pods: h.pods, Containers: h.containers})
	if bytes == 0 || missing <= 0 {
		return nil
	}
	if len(h.containers) == 0 {
		return errors.New("no containers to pad")
	}
	const overhead = 32 // of an annotation and of lengths that grow with it
	for _, c := range h.containers {
		c.Annotations = map[string]string{"padding": strings.Repeat("x", max(missing/len(h.containers)-overhead, 0))}
	}
	return nil
}

func (h *host) start(*op) (*reply, error) {
	begin := time.Now()
	err := h.adaptation.Start()
	return &reply{Micros: micros(begin)}, err
}

// wait until the plugin (NN-NAME) is connected and synchronized.
func (h *host) wait(o *op) (*reply, error) {
	begin := time.Now()
	for time.Since(begin) < timeout(o.Timeout, time.Minute) {
		for _, p := range h.plugins() {
			if p.Name == o.Plugin && !slices.Contains(o.Not, p.Pid) {
				return &reply{Micros: micros(begin)}, nil
			}
		}
		time.Sleep(time.Millisecond)
	}
	return nil, fmt.Errorf("plugin %s did not come: %+v", o.Plugin, h.plugins())
}

// plugin is one that is connected: what the adaptation knows of it.
type plugin struct {
	Name          string `json:"name"`
	Pid           int64  `json:"pid"`
	Events        int64  `json:"events"`
	FailRequest   bool   `json:"fail_request"`
	KeepConnected bool   `json:"keep_connected"`
}

// plugins reads the adaptation's own list, which it keeps to itself.
func (h *host) plugins() []plugin {
	h.adaptation.Lock()
	defer h.adaptation.Unlock()
	found := []plugin{}
	list := reflect.ValueOf(h.adaptation).Elem().FieldByName("plugins")
	for i := range list.Len() {
		p := list.Index(i).Elem()
		if p.FieldByName("closed").Bool() {
			continue
		}
		known := plugin{
			Name: p.FieldByName("idx").String() + "-" + p.FieldByName("base").String(),
			Pid:  p.FieldByName("pid").Int(), Events: p.FieldByName("events").Int(),
		}
		if cmd := p.FieldByName("cmd"); !cmd.IsNil() { // launched: the socket's peer is the host itself
			known.Pid = cmd.Elem().FieldByName("Process").Elem().FieldByName("Pid").Int()
		}
		if policy := p.FieldByName("policy"); policy.IsValid() && !policy.IsNil() { // since 0.12.4
			known.FailRequest = policy.Elem().FieldByName("FailRequest").Bool()
			known.KeepConnected = policy.Elem().FieldByName("KeepConnected").Bool()
		}
		found = append(found, known)
	}
	return found
}
