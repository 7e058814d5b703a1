package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/ttrpc"
	"google.golang.org/protobuf/proto"

	"peers/internal/pb"
)

// event is a call of the adaptation's method of that name. The methods' requests differ between the generations of NRI
// (StateChangeEvent up to 0.11, a type of its own for each since); found by reflection, one source serves both.
type event struct {
	method reflect.Value
	pod    *api.PodSandbox
	fields map[string]proto.Message
}

func newEvent(h *host, o *op) (*event, error) {
	method := reflect.ValueOf(h.adaptation).MethodByName(o.Event)
	if !method.IsValid() || method.Type().NumIn() != 2 {
		return nil, fmt.Errorf("this NRI has no event %q", o.Event)
	}
	pod, container := &api.PodSandbox{}, &api.Container{}
	resources, overhead := &api.LinuxResources{}, &api.LinuxResources{}
	err := errors.Join(pb.Decode(o.Pod, pod), pb.Decode(o.Container, container),
		pb.Decode(o.Resources, resources), pb.Decode(o.Overhead, overhead))
	e := &event{method, pod, map[string]proto.Message{
		"Pod": pod, "Container": container, "LinuxResources": resources, "OverheadLinuxResources": overhead,
	}}
	if strings.HasSuffix(o.Event, "PodSandbox") {
		delete(e.fields, "Container")
	}
	if err == nil && o.Bytes > 0 {
		err = e.pad(o.Event, o.Bytes)
	}
	return e, err
}

// request is made anew for each call: the adaptation fills in what plugins ask for.
func (e *event) request() reflect.Value {
	request := reflect.New(e.method.Type().In(1).Elem())
	for name, message := range e.fields {
		if field := request.Elem().FieldByName(name); field.IsValid() {
			field.Set(reflect.ValueOf(proto.Clone(message)))
		}
	}
	return request
}

// as makes the pod and the container others than those before; only their ids differ.
func (e *event) as(number int) {
	e.pod.Id = fmt.Sprintf("%064x", number)
	if container, ok := e.fields["Container"].(*api.Container); ok {
		container.Id, container.PodSandboxId = fmt.Sprintf("%064x", 1<<32+number), e.pod.Id
	}
}

func (e *event) play() (*reply, error) {
	arguments := []reflect.Value{reflect.ValueOf(context.Background()), e.request()}
	begin := time.Now()
	results := e.method.Call(arguments)
	r := &reply{Micros: micros(begin)}
	if err, failed := results[len(results)-1].Interface().(error); failed {
		return r, err
	}
	return r, r.read(results[0].Interface())
}

// read takes from a response what it has of adjustment and updates.
func (r *reply) read(response any) (err error) {
	if with, ok := response.(interface {
		GetAdjust() *api.ContainerAdjustment
	}); ok {
		if r.Adjust, err = pb.Encode(with.GetAdjust()); err != nil {
			return err
		}
	}
	if with, ok := response.(interface{ GetUpdate() []*api.ContainerUpdate }); ok {
		r.Update, err = encodeAll(with.GetUpdate())
	}
	return err
}

// pad makes the message on the wire, without its header, exactly that long.
func (e *event) pad(name string, bytes int) error {
	if e.pod.Annotations == nil {
		e.pod.Annotations = map[string]string{}
	}
	for range 8 { // lengths have lengths: it takes a few steps
		request := e.request().Interface().(proto.Message)
		method := name
		if change, ok := request.(*api.StateChangeEvent); ok {
			change.Event, method = api.Event_REMOVE_CONTAINER, "StateChange" // any: one byte
		}
		payload, err := proto.Marshal(request)
		if err != nil {
			return err
		}
		missing := bytes - proto.Size(&ttrpc.Request{
			Service: "nri.pkg.api.v1alpha1.Plugin", Method: method, Payload: payload, TimeoutNano: int64(time.Second),
		})
		if missing == 0 {
			return nil
		}
		padding := len(e.pod.Annotations["padding"]) + missing
		if padding < 0 {
			break
		}
		e.pod.Annotations["padding"] = strings.Repeat("x", padding)
	}
	return fmt.Errorf("cannot make a message of %d bytes of it", bytes)
}
