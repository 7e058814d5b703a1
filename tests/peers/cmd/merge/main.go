// Command merge tells what the adaptation makes of several plugins' answers to one event.
//
//	merge < cases > outcomes
//
// A case is a JSON object {"event", "container", "resources", "answers"}: CreateContainer, UpdateContainer or StopContainer,
// the container and, for an update, the resources asked for as protojson, and for each plugin {"adjust", "update"}. The
// plugins are called 00-p, 10-p and 20-p. For each case a line comes out: {"error", "adjust", "update", "owners", "seen"};
// seen is what a plugin behind them gets, the container or, of an update, the resources; null if the event did not come
// so far. owners is what a validator is told.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/adaptation/builtin"
	"github.com/containerd/nri/pkg/api"
	"github.com/sirupsen/logrus"

	"peers/internal/pb"
)

const plugins = 3

type answer struct {
	Adjust json.RawMessage   `json:"adjust"`
	Update []json.RawMessage `json:"update"`
}

type testCase struct {
	Event     string          `json:"event"`
	Container json.RawMessage `json:"container"`
	Resources json.RawMessage `json:"resources"`
	Answers   []answer        `json:"answers"`
}

type outcome struct {
	Error  string            `json:"error"`
	Adjust json.RawMessage   `json:"adjust"`
	Update []json.RawMessage `json:"update"`
	Owners json.RawMessage   `json:"owners"`
	Seen   json.RawMessage   `json:"seen"`
}

// host is the runtime; the plugins in it answer what the case at hand says.
type host struct {
	adaptation *adaptation.Adaptation
	answers    []answer
	out        *outcome
}

func main() {
	logrus.SetOutput(io.Discard)
	h, err := newHost()
	if err == nil {
		err = h.serve()
	}
	if err != nil {
		log.Fatal(err)
	}
}

func newHost() (*host, error) {
	h := &host{}
	all := []*builtin.BuiltinPlugin{h.observer()}
	for n := range plugins {
		all = append(all, h.plugin(n))
	}
	synchronize := func(ctx context.Context, tell adaptation.SyncCB) error {
		_, err := tell(ctx, nil, nil)
		return err
	}
	update := func(context.Context, []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) { return nil, nil }
	var err error
	h.adaptation, err = adaptation.New("merge", "1", synchronize, update, adaptation.WithBuiltinPlugins(all...),
		adaptation.WithPluginPath("/nonexistent"), adaptation.WithDisabledExternalConnections())
	if err != nil {
		return nil, err
	}
	return h, h.adaptation.Start()
}

func (h *host) plugin(n int) *builtin.BuiltinPlugin {
	return &builtin.BuiltinPlugin{Base: "p", Index: fmt.Sprintf("%d0", n), Handlers: builtin.BuiltinHandlers{
		CreateContainer: func(context.Context, *api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
			adjust, update, err := h.answer(n)
			return &api.CreateContainerResponse{Adjust: adjust, Update: update}, err
		},
		UpdateContainer: func(context.Context, *api.UpdateContainerRequest) (*api.UpdateContainerResponse, error) {
			_, update, err := h.answer(n)
			return &api.UpdateContainerResponse{Update: update}, err
		},
		StopContainer: func(context.Context, *api.StopContainerRequest) (*api.StopContainerResponse, error) {
			_, update, err := h.answer(n)
			return &api.StopContainerResponse{Update: update}, err
		},
	}}
}

func (h *host) observer() *builtin.BuiltinPlugin {
	return &builtin.BuiltinPlugin{Base: "observer", Index: "99", Handlers: builtin.BuiltinHandlers{
		CreateContainer: func(_ context.Context, r *api.CreateContainerRequest) (rpl *api.CreateContainerResponse, err error) {
			h.out.Seen, err = pb.Encode(r.Container)
			return nil, err
		},
		UpdateContainer: func(_ context.Context, r *api.UpdateContainerRequest) (rpl *api.UpdateContainerResponse, err error) {
			h.out.Seen, err = pb.Encode(r.LinuxResources)
			return nil, err
		},
		ValidateContainerAdjustment: func(_ context.Context, r *api.ValidateContainerAdjustmentRequest) (err error) {
			h.out.Owners, err = pb.Encode(r.Owners)
			return err
		},
	}}
}

func (h *host) answer(n int) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	if n >= len(h.answers) {
		return nil, nil, nil
	}
	var adjust *api.ContainerAdjustment
	if text := h.answers[n].Adjust; len(text) > 0 && string(text) != "null" {
		adjust = &api.ContainerAdjustment{}
		if err := pb.Decode(text, adjust); err != nil {
			return nil, nil, err
		}
	}
	var update []*api.ContainerUpdate
	for _, text := range h.answers[n].Update {
		update = append(update, &api.ContainerUpdate{})
		if err := pb.Decode(text, update[len(update)-1]); err != nil {
			return nil, nil, err
		}
	}
	return adjust, update, nil
}

func (h *host) serve() error {
	cases, out := json.NewDecoder(bufio.NewReader(os.Stdin)), json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for {
		var c testCase
		if err := cases.Decode(&c); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("case: %w", err)
		}
		h.answers, h.out = c.Answers, &outcome{Update: []json.RawMessage{}}
		if err := h.play(&c); err != nil {
			h.out.Error = err.Error()
		}
		if err := out.Encode(h.out); err != nil {
			return err
		}
	}
}

func (h *host) play(c *testCase) error {
	container, resources := &api.Container{}, &api.LinuxResources{}
	if err := errors.Join(pb.Decode(c.Container, container), pb.Decode(c.Resources, resources)); err != nil {
		return err
	}
	ctx, pod := context.Background(), &api.PodSandbox{Id: "pod"}
	switch c.Event {
	case "CreateContainer":
		rpl, err := h.adaptation.CreateContainer(ctx, &api.CreateContainerRequest{Pod: pod, Container: container})
		if err != nil {
			return err
		}
		if h.out.Adjust, err = pb.Encode(rpl.Adjust); err != nil {
			return err
		}
		return h.updates(rpl.Update)
	case "UpdateContainer":
		rpl, err := h.adaptation.UpdateContainer(ctx,
			&api.UpdateContainerRequest{Pod: pod, Container: container, LinuxResources: resources})
		if err != nil {
			return err
		}
		return h.updates(rpl.Update)
	case "StopContainer":
		rpl, err := h.adaptation.StopContainer(ctx, &api.StopContainerRequest{Pod: pod, Container: container})
		if err != nil {
			return err
		}
		return h.updates(rpl.Update)
	}
	return fmt.Errorf("no such event: %q", c.Event)
}

func (h *host) updates(updates []*api.ContainerUpdate) error {
	for _, u := range updates {
		text, err := pb.Encode(u)
		if err != nil {
			return err
		}
		h.out.Update = append(h.out.Update, text)
	}
	return nil
}
